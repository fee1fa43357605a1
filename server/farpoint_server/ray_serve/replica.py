"""A replica of Ray Serve: the whole server but its ports, and a method for each RPC."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

import grpc
import structlog
from google.protobuf.descriptor import MethodDescriptor

from farpoint_server.compute.memory import environment, host
from farpoint_server.config.settings import Settings
from farpoint_server.errors import status_of
from farpoint_server.observability import logging
from farpoint_server.ray_serve.methods import METHODS
from farpoint_server.transport.http.calls import HttpContext
from farpoint_server.transport.interceptor import REQUEST_ID_KEY, request_id_of

PROTOCOL = "ray"
log = structlog.get_logger("farpoint")


class Serialized(bytes):
    """A response as Ray Serve requires it: an object with this method."""

    def SerializeToString(self) -> bytes:  # noqa: N802
        """Itself."""
        return bytes(self)


class ReplicaContext(HttpContext):
    """One call: its messages and its answers, of which there may be several.

    Args:
        ray: ray.serve.grpc_util.RayServegRPCContext, which carries the status to the proxy.
        messages: What the caller sends, serialized.
    """

    def __init__(self, ray: Any, messages: AsyncIterator[bytes]) -> None:
        # Ray passes no deadline: its proxy cancels the call when the deadline passes.
        super().__init__(tuple(ray.invocation_metadata()), ray.peer(), None, messages.__anext__)
        self._ray = ray
        self._messages = messages
        # One at a time: a slow reader delays the handler.
        self._answers: asyncio.Queue[bytes] = asyncio.Queue(1)

    async def read(self) -> Any:
        """The next message; EOF after the last."""
        try:
            message = await self._messages.__anext__()
        except StopAsyncIteration:
            return grpc.aio.EOF
        return message if self.deserialize is None else self.deserialize(message)

    async def write(self, answer: bytes) -> None:
        """Passes on an answer of a stream once the previous one is taken."""
        await self._answers.put(bytes(answer))

    async def answers(self, call: "asyncio.Task[bytes]") -> AsyncIterator[bytes]:
        """The answers of a call until it ends; the call is cancelled if its reader leaves."""
        try:
            while not (call.done() and self._answers.empty()):
                answer = asyncio.ensure_future(self._answers.get())
                await asyncio.wait((answer, call), return_when=asyncio.FIRST_COMPLETED)
                if answer.done():
                    yield answer.result()
                else:
                    answer.cancel()
        finally:
            call.cancel()

    def send_status(self) -> None:
        """Makes Ray send the status and the trailers with the next answer."""
        if self.code() is not grpc.StatusCode.OK:
            self._ray.set_code(self.code())
            self._ray.set_details(self.message)
        self._ray.set_trailing_metadata(list(self.trailers))

    async def fail(self, error: Exception) -> None:
        """Sets the status of a failed call, as its interceptors have unless they failed."""
        if not isinstance(error, grpc.aio.AbortError):
            log.error("call through Ray", exc_info=error)
            request_id = request_id_of(self.invocation_metadata())
            with suppress(grpc.aio.AbortError):
                text = status_of(error, request_id).message
                await self.abort(grpc.StatusCode.INTERNAL, text, ((REQUEST_ID_KEY, request_id),))
        self.send_status()


class Replica:
    """Answers calls with the server's own interceptors, limits, handlers, scheduler and engines.

    Ray makes it on the event loop of its methods, in a process of its own. It waits for open
    calls before it ends that process.

    Args:
        settings: The server's, without addresses of gRPC: those are the proxies'.
    """

    async def __init__(self, settings: Settings) -> None:  # type: ignore[misc]
        # Too late for threads that Ray has started, which keep their arenas.
        host.detect().set_options(os.environ)
        if set(settings.device) != {"cpu"}:
            environment.configure(os.environ)
        logging.configure(settings)
        from farpoint_server.app.server import App  # and torch, whose allocator is set up by now

        self.app = App(settings)
        log.info("ready", **await self.app.start())
        self._lost = asyncio.ensure_future(self.app.compute.lost())

    async def answers(
        self, method: MethodDescriptor, messages: AsyncIterator[bytes], ray: Any
    ) -> AsyncIterator[Serialized]:
        """The answers of a call; one that fails ends with an empty one, which has its status."""
        context = ReplicaContext(ray, messages)
        path = f"/{method.containing_service.full_name}/{method.name}"
        call = self.app.calls.start(path, context, PROTOCOL)
        try:
            async for answer in context.answers(call):
                context.send_status()
                yield Serialized(answer)
            last = await call
            context.send_status()
            if not method.server_streaming:
                yield Serialized(last)
        except Exception as error:
            await context.fail(error)
            yield Serialized()
        finally:
            call.cancel()
            context.close()

    async def check_health(self) -> None:
        """Raises RuntimeError if the replica does not work; Ray then starts another one."""
        if self._lost.done():
            raise RuntimeError(self._lost.result())
        if not self.app.is_serving:
            raise RuntimeError("an engine hangs, or memory keeps running out")

    async def __call__(self, _: object) -> str:
        """Answers HTTP requests of Ray's proxies."""
        return "farpoint answers gRPC here; see docs/deployment.md"


def _method_of(method: MethodDescriptor) -> Callable[..., Any]:
    """A method for one RPC. Ray calls it by the RPC's name, with these names of arguments."""

    async def stream(self: Replica, request: Any, grpc_context: Any) -> AsyncIterator[Serialized]:
        messages = request if method.client_streaming else _only(request)
        async for answer in self.answers(method, messages, grpc_context):
            yield answer

    async def unary(self: Replica, request: Any, grpc_context: Any) -> Serialized:
        async for answer in stream(self, request, grpc_context):
            last = answer
        return last

    made = stream if method.server_streaming else unary
    made.__name__ = method.name
    return made


async def _only(message: bytes) -> AsyncIterator[bytes]:
    yield message


for _method in METHODS:
    setattr(Replica, _method.name, _method_of(_method))
