"""The part of grpc.aio.ServicerContext that handlers use, for a call that Ray has brought."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from typing import Any, Protocol

import grpc

from farpoint_server.errors import status_of
from farpoint_server.ray_serve.methods import TIMEOUT_KEY
from farpoint_server.transport.http.context import HttpContext, Metadata
from farpoint_server.transport.interceptor import REQUEST_ID_KEY, request_id_of


class RayContext(Protocol):
    """What is used of ray.serve.grpc_util.RayServegRPCContext."""

    def invocation_metadata(self) -> Iterable[tuple[str, str | bytes]]: ...

    def peer(self) -> str: ...

    def set_code(self, code: grpc.StatusCode) -> None: ...

    def set_details(self, details: str) -> None: ...

    def set_trailing_metadata(self, trailing_metadata: list[tuple[str, str | bytes]]) -> None: ...


class ReplicaContext(HttpContext):
    """One call: its messages and its answers, of which there may be several.

    Args:
        ray: Ray's own, which carries the status back to the proxy.
        messages: What the caller sends, serialized.
    """

    def __init__(self, ray: RayContext, messages: AsyncIterator[bytes]) -> None:
        metadata = tuple(ray.invocation_metadata())
        super().__init__(metadata, ray.peer(), _deadline_of(metadata), messages.__anext__)
        self._ray = ray
        self._messages = messages
        # One at a time: a reader that falls behind holds the handler up.
        self._answers: asyncio.Queue[bytes] = asyncio.Queue(1)

    async def read(self) -> Any:
        """The next message; EOF after the last one."""
        try:
            message = await self._messages.__anext__()
        except StopAsyncIteration:
            return grpc.aio.EOF
        return message if self.deserialize is None else self.deserialize(message)

    async def write(self, answer: bytes) -> None:
        """Hands an answer of a stream on, when the one before is taken."""
        await self._answers.put(bytes(answer))

    async def answers(self, call: "asyncio.Task[bytes]") -> AsyncIterator[bytes]:
        """What the call writes, until it ends; it is cancelled where nobody reads on."""
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

    async def fail(self, error: Exception) -> None:
        """Ends the call with an error that no interceptor has met: a bug."""
        request_id = request_id_of(self.invocation_metadata())
        with suppress(grpc.aio.AbortError):
            status = status_of(error, request_id)
            trailers = ((REQUEST_ID_KEY, request_id),)
            await self.abort(grpc.StatusCode.INTERNAL, status.message, trailers)

    def settle(self) -> None:
        """Has Ray carry back, with the next answer, what the call has come to."""
        if self.code() is not grpc.StatusCode.OK:
            self._ray.set_code(self.code())
            self._ray.set_details(self.message)
        self._ray.set_trailing_metadata(list(self.trailers))


def _deadline_of(metadata: Metadata) -> float | None:
    """In seconds of time.monotonic, as the proxy has told it; None for never."""
    for key, value in metadata:
        if key == TIMEOUT_KEY:
            return time.monotonic() + int(value) / 1e3
    return None
