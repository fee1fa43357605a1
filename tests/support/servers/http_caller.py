"""Calls over HTTP with the standard library alone, as a program without gRPC would make them."""

import http.client
import json
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from google.protobuf.message import Message
from tests.support.servers.server_process import RunningServer

PATIENCE_S = 60
SERVICE = "/farpoint.v1.SamplingService/"
HTTP = ("--http-listen", "127.0.0.1:0")


@dataclass(frozen=True)
class Answer:
    """An HTTP response; names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class HttpCaller:
    """One connection to the HTTP port of a server."""

    def __init__(self, server: RunningServer, context: ssl.SSLContext | None = None) -> None:
        self.host, _, port = server.ready["http_address"].rpartition(":")
        self.port = int(port)
        self._peers: list[socket.socket] = []
        self._connection = (
            http.client.HTTPConnection(self.host, self.port, timeout=PATIENCE_S)
            if context is None
            else http.client.HTTPSConnection(
                self.host, self.port, timeout=PATIENCE_S, context=context
            )
        )

    def request(self, verb: str, path: str, body: Any = None, **headers: str) -> Answer:
        """One request; underscores in the names of headers are hyphens."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            self._connection.request(verb, path, body, named)
            answer = self._connection.getresponse()
            found = {name.lower(): value for name, value in answer.getheaders()}
            return Answer(answer.status, found, answer.read())
        except BaseException:
            self._connection.close()
            raise

    def call(self, method: str, message: Message | bytes, **headers: str) -> Answer:
        """A call with a message in its binary form."""
        raw = message if isinstance(message, bytes) else message.SerializeToString()
        headers.setdefault("content_type", "application/proto")
        return self.request("POST", _path(method), raw, **headers)

    def call_json(self, method: str, message: Any, **headers: str) -> Answer:
        """A call with a message in its JSON form, or with a text that may be one."""
        text = message if isinstance(message, bytes) else json.dumps(message).encode()
        return self.request("POST", _path(method), text, content_type="application/json", **headers)

    def send(self, data: bytes) -> socket.socket:
        """A connection of its own on which some bytes are sent; it is closed with the caller."""
        peer = socket.create_connection((self.host, self.port), PATIENCE_S)
        self._peers.append(peer)
        peer.sendall(data)
        return peer

    def close(self) -> None:
        self._connection.close()
        for peer in self._peers:
            peer.close()

    def __enter__(self) -> "HttpCaller":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def raw_call(method: str, body: bytes, headers: str = "") -> bytes:
    """The bytes of a call of the SamplingService."""
    head = (
        f"POST {_path(method)} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/proto\r\n"
        f"{headers}Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def _path(method: str) -> str:
    return method if method.startswith("/") else SERVICE + method
