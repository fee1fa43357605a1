"""Handler of SampleStream: a bounded read-ahead, a few requests at a time, responses in order."""

import asyncio
import itertools
import time
from collections.abc import Sequence

import grpc

from farpoint.v1 import sampling_pb2
from farpoint_server import request_context
from farpoint_server.codec.wire import Buffer, length_delimited, parse, read_stream_message
from farpoint_server.errors import InvalidRequestError, clear_tracebacks, status_of
from farpoint_server.services.sample_handler import SampleHandler
from farpoint_server.transport import interceptor
from farpoint_server.transport.interceptor import Context

# Requests of one stream that are worked on at a time: enough to convert one while another is
# computed and a third is written, and few enough that one stream does not fill the server.
AHEAD = 4


class SampleStream:
    """The state of one call.

    At most AHEAD requests are worked on or wait to be written, and one more is read; then reading
    stops, and flow control stops the sender. So a consumer that reads slowly, a full queue and a
    slow engine all slow the sender down. In STREAM_MODE_LATEST reading goes on: one request is
    worked on, and the one that is read replaces the one read before.
    """

    def __init__(self, context: Context, handler: SampleHandler) -> None:
        self._context = context
        self._handler = handler
        self._request_id = interceptor.request_id_of(context.invocation_metadata())
        self._ahead = AHEAD
        self._next: tuple[int, bytes, float] | None = None
        self._next_is_free = asyncio.Event()
        self._next_is_free.set()
        self._begun: asyncio.Queue[asyncio.Task[Sequence[Buffer]] | None] = asyncio.Queue()
        self._tasks: set[asyncio.Task[Sequence[Buffer]]] = set()

    async def run(self, draining: asyncio.Event) -> bool:
        """Answers until the sender ends (True), or until `draining` is set (False).

        In either case what was begun is answered before.
        """
        # The client's library keeps what it sends for a retry until it sees this.
        await self._context.send_initial_metadata(())
        reader = asyncio.ensure_future(self._read())
        watcher = asyncio.ensure_future(self._watch(draining))
        try:
            while (task := await self._begun.get()) is not None:
                await self._context.write(b"".join(await task))
                self._tasks.discard(task)
                self._begin()
            if reader.done():
                reader.result()
            return not draining.is_set()
        finally:
            reader.cancel()
            watcher.cancel()
            for left in self._tasks:
                left.cancel()

    async def _read(self) -> None:
        try:
            latest = False
            for index in itertools.count():
                raw = await self._context.read()
                if raw is grpc.aio.EOF:
                    break
                if index == 0 and _is_latest(raw):
                    latest, self._ahead = True, 1
                if not latest:
                    await self._next_is_free.wait()
                self._next = index, raw, time.monotonic()
                self._next_is_free.clear()
                self._begin()
            await self._next_is_free.wait()
        finally:
            self._begun.put_nowait(None)

    async def _watch(self, draining: asyncio.Event) -> None:
        await draining.wait()
        self._begun.put_nowait(None)

    def _begin(self) -> None:
        """Begins the next request, if there is one and few enough are under way."""
        if self._next is None or len(self._tasks) >= self._ahead:
            return
        index, raw, arrived = self._next
        self._next = None
        self._next_is_free.set()
        task = asyncio.ensure_future(self._handle(index, raw, arrived))
        self._tasks.add(task)
        self._begun.put_nowait(task)

    async def _handle(self, index: int, raw: bytes, arrived: float) -> Sequence[Buffer]:
        """The SampleStreamResponse to one request, as chunks; what fails fails it alone."""
        response = sampling_pb2.SampleStreamResponse
        request_context.fork(request_index=index)
        head = response(request_index=index).SerializeToString()
        try:
            message, _mode = parse(read_stream_message, raw)
            timeout_s = self._context.time_remaining()
            chunks = await self._handler.handle_message(message, timeout_s, arrived)
        except Exception as error:
            interceptor.log_end(arrived, error)
            clear_tracebacks(error)
            status = status_of(error, self._request_id)
            return [head, response(error=status).SerializeToString()]
        interceptor.log_end(arrived)
        return [head, *length_delimited(response.RESPONSE_FIELD_NUMBER, chunks)]


def _is_latest(raw: bytes) -> bool:
    """The mode of a first message; one that does not parse is told so when it is answered."""
    try:
        return parse(read_stream_message, raw)[1] == sampling_pb2.STREAM_MODE_LATEST
    except InvalidRequestError:
        return False
