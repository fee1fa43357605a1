"""The other processes of one server: each answers the others on a private unix socket."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any

import grpc

from farpoint_server import request_context
from farpoint_server.errors import RETRY_MS, OverloadedError
from farpoint_server.transport.grpc.handlers import Context, Handler
from farpoint_server.transport.grpc.health import SERVICE as HEALTH
from farpoint_server.transport.grpc.interceptor import REQUEST_ID_KEY, RequestInterceptor
from farpoint_server.transport.http.calls import HandlerRegistry
from farpoint_server.transport.limits import InFlight

# Private calls of the processes to each other.
SERVICE = "processes.Process"
CALLER_KEY = "farpoint-caller"
# Reads wait no longer; a process that starts or hangs is left out.
ASK_S = 2.0
BROADCAST_S = 60.0
# A connection of its own for each call: gRPC would wait before it tries again one that was refused.
OPTIONS = (
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
)
SERVING = b"\x08\x01"
"""A serialized HealthCheckResponse that says so."""


class Peers:
    """The other processes, by index and address."""

    def __init__(self, addresses: Mapping[int, str]) -> None:
        self._addresses = dict(sorted(addresses.items()))

    def __bool__(self) -> bool:
        return bool(self._addresses)

    async def ask(self, method: str, request: bytes = b"") -> dict[int, bytes]:
        """Sends a call to all concurrently; the serialized answers by index, without failures."""
        calls = [self._call(index, method, request, ASK_S) for index in self._addresses]
        answers = await asyncio.gather(*calls, return_exceptions=True)
        return {
            index: answer
            for index, answer in zip(self._addresses, answers, strict=True)
            if isinstance(answer, bytes)
        }

    async def broadcast(
        self, method: str, request: bytes, timeout_s: float | None = None
    ) -> dict[int, bytes]:
        """Sends a change to one after the other, in the order of their index.

        One that is just being replaced is tried again in the end: either it answers by then, or it
        looks only later at the state of the others (see `join`), and finds the change there.

        Raises:
            OverloadedError: one did not follow.
        """
        answers: dict[int, bytes] = {}
        for index in (*self._addresses, *self._addresses):
            if index in answers:
                continue
            try:
                answers[index] = await self._call(index, method, request, timeout_s or BROADCAST_S)
            except grpc.aio.AioRpcError as error:
                if error.code() is grpc.StatusCode.NOT_FOUND:  # what shall go is gone
                    answers[index] = b""
                elif error.code() is not grpc.StatusCode.UNAVAILABLE:
                    why = f"process {index} of this server did not follow: {error.details()}"
                    raise OverloadedError(why, RETRY_MS) from error
        return answers

    async def serve(self) -> bool:
        """Whether any of the others is healthy."""
        return SERVING in (await self.ask(f"/{HEALTH}/Check")).values()

    async def _call(self, index: int, method: str, request: bytes, timeout_s: float) -> bytes:
        current = request_context.variable.get()
        fields = {} if current is None else current.fields
        metadata = [(REQUEST_ID_KEY, str(fields["request_id"]))] if "request_id" in fields else []
        if "caller" in fields:
            metadata.append((CALLER_KEY, str(fields["caller"])))
        async with grpc.aio.insecure_channel(self._addresses[index], options=OPTIONS) as channel:
            call: Callable[..., Awaitable[bytes]] = channel.unary_unary(method)
            return await call(request, timeout=timeout_s, metadata=tuple(metadata))


class PeerServer(grpc.aio.ServerInterceptor):
    """Server of a process for the others, which trusts the caller that they name.

    Args:
        address: unix:PATH in a private folder.
        changing: Methods that change something. They wait for `joined`.

    Attributes:
        joined: Set once the state of the others is known here.
        registry: Servicers register here as at the other servers.
    """

    def __init__(self, address: str, changing: Collection[str]) -> None:
        self._address, self._changing = address, changing
        self.joined = asyncio.Event()
        interceptors = (RequestInterceptor(InFlight()), self)
        self._server = grpc.aio.server(interceptors=interceptors, options=OPTIONS)
        self.registry: HandlerRegistry = self._server

    def add(self, methods: Mapping[str, Callable[[], Awaitable[bytes]]]) -> None:
        """Adds methods of SERVICE without a request."""
        handlers: dict[str, Any] = {name: _unary(answer) for name, answer in methods.items()}
        generic = grpc.method_handlers_generic_handler(SERVICE, handlers)
        self._server.add_generic_rpc_handlers((generic,))

    async def start(self) -> None:
        """Starts to answer."""
        self._server.add_insecure_port(self._address)
        await self._server.start()

    async def stop(self) -> None:
        """Closes the socket."""
        await self._server.stop(None)

    async def intercept_service(
        self,
        continuation: "Callable[[grpc.HandlerCallDetails], Awaitable[Handler]]",
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler:
        if handler_call_details.method in self._changing:
            await self.joined.wait()
        metadata: Sequence[Any] = handler_call_details.invocation_metadata or ()
        for key, value in metadata:
            if key == CALLER_KEY:
                request_context.bind(caller=value)
        return await continuation(handler_call_details)


def _unary(answer: Callable[[], Awaitable[bytes]]) -> "grpc.RpcMethodHandler[Any, Any]":
    async def behavior(_: bytes, __: Context) -> bytes:
        return await answer()

    return grpc.unary_unary_rpc_method_handler(behavior)
