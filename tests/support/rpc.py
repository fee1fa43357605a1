"""Calls without servers: handlers of gRPC, and requests to an ASGI application."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote

import grpc
from tests.support.servers.http_caller import Answer

METHOD = "/farpoint.test.Service/Method"


class AbortError(Exception):
    """Raised by `abort`, as gRPC's own does."""


class CallContext:
    """A call whose peer sends these messages, then its end; after `silent` it never ends.

    Attributes:
        written: Messages of the answer.
        aborted: Name of the status, text, and trailers, once the call is aborted.
        trailing: Metadata that goes with a good answer.
    """

    def __init__(
        self,
        *messages: Any,
        peer: str = "ipv4:192.0.2.1:7",
        silent: bool = False,
        metadata: Any = (),
    ):
        self._messages, self._peer, self._silent = list(messages), peer, silent
        self._metadata = metadata
        self._callbacks: list[Any] = []
        self.written: list[Any] = []
        self.aborted: tuple[str, str, dict[str, Any]] | None = None
        self.trailing: dict[str, Any] = {}
        self.has_metadata = False

    def peer(self) -> str:
        return self._peer

    def time_remaining(self) -> None:
        """No deadline."""

    def invocation_metadata(self) -> Any:
        return self._metadata

    def add_done_callback(self, callback: Any) -> None:
        self._callbacks.append(callback)

    def end(self) -> None:
        """gRPC has sent the answer, or given it up."""
        for callback in self._callbacks:
            callback(self)

    def set_trailing_metadata(self, metadata: Any) -> None:
        self.trailing = dict(metadata)

    async def send_initial_metadata(self, _: Any) -> None:
        self.has_metadata = True

    async def read(self) -> Any:
        if self._messages:
            return self._messages.pop(0)
        if self._silent:
            await asyncio.Event().wait()
        return grpc.aio.EOF

    async def write(self, message: Any) -> None:
        self.written.append(message)

    async def abort(self, code: grpc.StatusCode, text: str, trailers: Any = ()) -> None:
        self.aborted = code.name, text, dict(trailers)
        raise AbortError


async def intercept(interceptor: Any, method: str, handler: Any, *metadata: Any) -> Any:
    """The handler that an interceptor makes of a method's."""

    async def continuation(_: Any) -> Any:
        return handler

    details = SimpleNamespace(method=method, invocation_metadata=metadata or None)
    return await interceptor.intercept_service(continuation, details)


@asynccontextmanager
async def serving(
    behavior: Any, *interceptors: Any, kind: str = "unary_unary", method: str = METHOD
) -> AsyncIterator[grpc.aio.Channel]:
    """A channel to a server on a free port whose one method is a coroutine function."""
    _, service, name = method.split("/")
    server = grpc.aio.server(interceptors=interceptors)
    handler = getattr(grpc, f"{kind}_rpc_method_handler")(behavior)
    generic = grpc.method_handlers_generic_handler(service, {name: handler})
    server.add_generic_rpc_handlers((generic,))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield channel
    await server.stop(None)


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
