"""Bidirectional streams: a bounded read-ahead, a few requests at a time, responses in order."""

import asyncio
import itertools
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import TypeAlias

import grpc

from farpoint.v1 import sampling_pb2
from farpoint_server import request_context
from farpoint_server.codec.sample_request import (
    SampleMessage,
    parse_sample_request,
    read_stream_message,
)
from farpoint_server.codec.sample_response import sample_response_chunks
from farpoint_server.codec.wire import Buffer, length_delimited
from farpoint_server.errors import (
    DeadlinePassedError,
    DrainingError,
    InvalidRequestError,
    clear_tracebacks,
    status_of,
)
from farpoint_server.services.call import sample_call
from farpoint_server.services.pipeline import Pipeline
from farpoint_server.transport.grpc import interceptor
from farpoint_server.transport.grpc.handlers import Context
from farpoint_server.transport.outgoing import Outgoing, Response

# Requests of one stream that are worked on at a time: enough to convert one while another is
# computed and a third is written, and few enough that one stream does not fill the server.
AHEAD = 4
# A stream that ends by itself has so long to do it when a drain begins, as HTTP has for a request.
LAST_S = 0.5

_Answer: TypeAlias = tuple[Response, Sequence[Buffer]]


class OrderedStream(ABC):
    """State of one call.

    At most AHEAD requests are worked on or wait to be written, and one more is read; then reading
    stops, and flow control stops the sender. So a consumer that reads slowly, a full queue and a
    slow engine all slow the sender down. Where only the latest request counts, reading goes on: one
    is worked on, and the one that is read replaces the one read before.

    Args:
        context: Of the call.
        outgoing: Where responses count until they are written.
        idle_s: Seconds without a request, and with none under way, after which the call ends.
    """

    def __init__(self, context: Context, outgoing: Outgoing, idle_s: float) -> None:
        self._context = context
        self._outgoing = outgoing
        self._idle_s = idle_s
        self._active = time.monotonic()
        self._is_idle = False
        self._held: set[Response] = set()
        self._request_id = interceptor.request_id_of(context.invocation_metadata())
        self._ahead = AHEAD
        self._next: tuple[int, bytes, float] | None = None
        self._next_is_free = asyncio.Event()
        self._next_is_free.set()
        self._begun: asyncio.Queue[asyncio.Task[_Answer] | None] = asyncio.Queue()
        self._tasks: set[asyncio.Task[_Answer]] = set()

    async def run(self, draining: asyncio.Event) -> None:
        """Answers until the sender ends, and finishes started requests.

        Raises:
            DeadlinePassedError: nothing was sent for a long time.
            DrainingError: `draining` is set.
        """
        if draining.is_set():
            raise DrainingError("the server is shutting down")
        reader = asyncio.ensure_future(self._read())
        watcher = asyncio.ensure_future(self._watch(draining))
        timer = asyncio.ensure_future(self._watch_idleness())
        try:
            while (task := await self._begun.get()) is not None:
                await self._write(*await task)
                self._tasks.discard(task)
                self._begin()
            if self._is_idle:
                raise DeadlinePassedError(f"nothing arrived for {self._idle_s:g} s")
            if reader.done():
                reader.result()
            elif draining.is_set():
                raise DrainingError("the server is shutting down")
        finally:
            reader.cancel()
            watcher.cancel()
            timer.cancel()
            for left in self._tasks:
                left.cancel()
            for response in self._held:
                self._outgoing.end(response)

    async def _read(self) -> None:
        try:
            latest = False
            for index in itertools.count():
                if not latest:
                    await self._next_is_free.wait()
                raw = await self._context.read()
                if raw is grpc.aio.EOF:
                    break
                if index == 0:
                    # The client's library keeps what it sends until it sees this, and repeats a
                    # call that has not begun.
                    await self._context.send_initial_metadata(())
                    if self._is_latest(raw):
                        latest, self._ahead = True, 1
                self._active = time.monotonic()
                self._next = index, raw, self._active
                self._next_is_free.clear()
                self._begin()
            await self._next_is_free.wait()
        finally:
            self._begun.put_nowait(None)

    async def _watch(self, draining: asyncio.Event) -> None:
        await draining.wait()
        await asyncio.sleep(LAST_S)
        self._begun.put_nowait(None)

    async def _watch_idleness(self) -> None:
        while (left := self._active + self._idle_s - time.monotonic()) > 0 or self._tasks:
            await asyncio.sleep(left if left > 0 else self._idle_s)
        self._is_idle = True
        self._begun.put_nowait(None)

    async def _write(self, response: Response, chunks: Sequence[Buffer]) -> None:
        self._outgoing.begin(response)
        await self._context.write(b"".join(chunks))
        self._held.discard(response)
        self._outgoing.end(response)
        self._active = time.monotonic()

    def _begin(self) -> None:
        """Starts the next request, if there is one and few enough are in flight."""
        if self._next is None or len(self._tasks) >= self._ahead:
            return
        index, raw, arrived = self._next
        self._next = None
        self._next_is_free.set()
        task = asyncio.ensure_future(self._answer(index, raw, arrived))
        self._tasks.add(task)
        self._begun.put_nowait(task)

    async def _answer(self, index: int, raw: bytes, arrived: float) -> _Answer:
        """The response to one request, counted from now on, and its chunks."""
        chunks = await self._handle(index, raw, arrived)
        response = self._outgoing.hold(self._context, sum(map(len, chunks)))
        self._held.add(response)
        return response, chunks

    @abstractmethod
    async def _handle(self, index: int, raw: bytes, arrived: float) -> Sequence[Buffer]:
        """The serialized response to one request, as chunks; an error fails only this request."""

    def _is_latest(self, raw: bytes) -> bool:  # noqa: ARG002
        """Whether a stream with this first message answers only the latest request."""
        return False


class SampleStream(OrderedStream):
    """State of one call; STREAM_MODE_LATEST answers only the latest request."""

    def __init__(
        self, context: Context, pipeline: Pipeline, outgoing: Outgoing, idle_s: float
    ) -> None:
        super().__init__(context, outgoing, idle_s)
        self._pipeline = pipeline

    async def _handle(self, index: int, raw: bytes, arrived: float) -> Sequence[Buffer]:
        """The SampleStreamResponse to one request, as chunks; an error fails only this request."""
        response = sampling_pb2.SampleStreamResponse
        request_context.fork(request_index=index)
        head = response(request_index=index).SerializeToString()
        try:
            pipeline = self._pipeline
            timeout_s = self._context.time_remaining()
            done = await pipeline.sample_raw(raw, arrived, timeout_s, is_streamed=True)
            if done is not None:
                interceptor.log_end(arrived)
                return [head, *length_delimited(response.RESPONSE_FIELD_NUMBER, [done])]
            request = parse_sample_request(self._parse(raw)[0], pipeline.limits, pipeline.regions)
            call = sample_call(request, partial(sample_response_chunks, arrived))
            chunks = await pipeline.run(call, timeout_s)
        except Exception as error:
            interceptor.log_end(arrived, error)
            clear_tracebacks(error)
            status = status_of(error, self._request_id)
            return [head, response(error=status).SerializeToString()]
        interceptor.log_end(arrived)
        return [head, *length_delimited(response.RESPONSE_FIELD_NUMBER, chunks)]

    def _is_latest(self, raw: bytes) -> bool:
        """The mode of a first message; one that does not parse gets its error in its answer."""
        try:
            return self._parse(raw)[1] == sampling_pb2.STREAM_MODE_LATEST
        except InvalidRequestError:
            return False

    def _parse(self, raw: bytes) -> tuple[SampleMessage, int]:
        return read_stream_message(raw, self._pipeline.limits.clouds)
