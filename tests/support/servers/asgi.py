"""Requests to an ASGI application without a server."""

import asyncio
from typing import Any
from urllib.parse import unquote

from tests.support.servers.http_caller import Answer


class AsgiCaller:
    """Sends a body in pieces, then leaves once `left` is set; collects what the application sends.

    Without `whole` the end of the body never arrives.
    """

    def __init__(self, *pieces: bytes, whole: bool = True) -> None:
        self._pieces, self._whole = list(pieces or (b"",)), whole
        self.left = asyncio.Event()
        self.sent: list[Any] = []

    async def receive(self) -> dict[str, Any]:
        if self._pieces:
            piece = self._pieces.pop(0)
            more = bool(self._pieces) or not self._whole
            return {"type": "http.request", "body": piece, "more_body": more}
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, event: Any) -> None:
        self.sent.append(event)

    async def run(
        self, app: Any, path: str = "/", verb: str = "GET", state: Any = None, **headers: str
    ) -> Answer | None:
        """The answer to a request, if any; underscores in the names of headers are hyphens."""
        named = [(k.replace("_", "-").encode(), v.encode("latin-1")) for k, v in headers.items()]
        scope = {
            **{"type": "http", "method": verb, "path": unquote(path), "root_path": ""},
            **{"query_string": b"", "headers": named, "client": ("192.0.2.1", 80)},
            "state": state or {},
        }
        await app(scope, self.receive, self.send)
        if not self.sent:
            return None
        start, *parts = self.sent
        found = {name.decode(): value.decode() for name, value in start["headers"]}
        return Answer(start["status"], found, b"".join(part["body"] for part in parts))


async def ask(app: Any, path: str = "/", verb: str = "GET", body: bytes = b"", **more: Any) -> Any:
    """The answer to one request with a body of one piece."""
    return await AsgiCaller(body).run(app, path, verb, **more)
