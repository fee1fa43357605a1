"""Streams: read-ahead, idle time and drain; uploads: order, admission and slowest rate."""

import asyncio
from collections.abc import Sequence

import grpc
import pytest
from tests.support.rpc import CallContext

from farpoint.v1 import sampling_pb2 as pb
from farpoint_server.errors import (
    DeadlinePassedError,
    DrainingError,
    OverloadedError,
)
from farpoint_server.services.stream import AHEAD, LAST_S, OrderedStream
from farpoint_server.services.upload import BYTES_PER_S, receive_points
from farpoint_server.transport.admission import Admission
from farpoint_server.transport.outgoing import Outgoing


class Echo(OrderedStream):
    async def _handle(self, _: int, raw: bytes, __: float) -> Sequence[bytes]:
        return [raw]


class Held(OrderedStream):
    """Answers when the test says so."""

    def __init__(self, context: CallContext, idle_s: float) -> None:
        super().__init__(context, Outgoing(Admission(9, 9)), idle_s)
        self.begun, self.may_answer = 0, asyncio.Event()

    async def _handle(self, _: int, raw: bytes, __: float) -> Sequence[bytes]:
        self.begun += 1
        await self.may_answer.wait()
        return [raw]


class SlowEnd(CallContext):
    """The end of what it sends arrives later than its messages."""

    async def read(self) -> object:
        if not self._messages:
            await asyncio.sleep(LAST_S / 10)
        return await super().read()


async def drained(context: CallContext) -> None:
    """Runs a stream, and drains its server once it has answered all requests."""
    draining, expected = asyncio.Event(), list(context._messages)
    stream = asyncio.create_task(Echo(context, Outgoing(Admission(9, 9)), 300).run(draining))
    while context.written != expected:
        await asyncio.sleep(0)
    draining.set()
    await asyncio.wait_for(stream, 30)


async def test_nothing_is_sent_to_a_stream_without_a_request_so_that_its_client_repeats_it():
    context = CallContext(silent=True)
    with pytest.raises(DrainingError):
        await drained(context)
    assert not context.has_metadata


async def test_a_stream_that_has_begun_and_goes_on_is_ended():
    context = CallContext(b"1", b"2", silent=True)
    with pytest.raises(DrainingError):
        await drained(context)
    assert context.has_metadata


async def test_a_stream_whose_end_is_under_way_ends_well():
    await drained(SlowEnd(b"1", b"2"))


async def test_a_stream_reads_one_request_more_than_it_works_on():
    sent = [bytes([i]) for i in range(3 * AHEAD)]
    context = CallContext(*sent)
    stream = Held(context, idle_s=300)
    running = asyncio.create_task(stream.run(asyncio.Event()))
    for _ in range(100):  # rounds of the event loop
        await asyncio.sleep(0)
    assert (stream.begun, len(sent) - len(context._messages)) == (AHEAD, AHEAD + 1)
    stream.may_answer.set()
    await asyncio.wait_for(running, 30)
    assert context.written == sent


async def test_a_stream_is_idle_once_it_has_answered_and_nothing_comes():
    context = CallContext(b"1", silent=True)
    stream = Held(context, idle_s=0.05)
    running = asyncio.create_task(stream.run(asyncio.Event()))
    await asyncio.sleep(0.3)
    assert not running.done()  # a request is under way
    stream.may_answer.set()
    with pytest.raises(DeadlinePassedError, match=r"nothing arrived for 0\.05 s"):
        await asyncio.wait_for(running, 30)
    assert context.written == [b"1"]


class Sender:
    """The context of an upload: each message comes after so many seconds of the clock."""

    def __init__(self, clock: list[float], *messages: tuple[float, bytes]) -> None:
        self._seconds, self._messages = clock, iter(messages)

    def clock(self) -> float:
        return self._seconds[0]

    async def read(self) -> bytes:
        seconds, data = next(self._messages, (0.0, b""))
        self._seconds[0] += seconds
        return pb.SampleLargeRequest(points_data=data).SerializeToString() if data else grpc.aio.EOF


@pytest.fixture
def clock():
    return [100.0]


POINTS = 1000
SIZE = 12_000


async def receive(sender: Sender, admission: Admission, size: int = SIZE) -> bytes:
    with admission.reserve(0, 0) as hold:
        data = await receive_points(sender, POINTS, size, 1, hold, sender.clock)
        assert (admission.points, admission.bytes) == (POINTS, size)
        return bytes(data)


async def test_points_count_as_they_arrive(clock):
    admission, seen = Admission(1000, SIZE), []

    class Watching(Sender):
        async def read(self) -> bytes:
            seen.append((admission.points, admission.bytes))
            return await super().read()

    data = bytes(range(100)) * 120
    sender = Watching(clock, (0, data[:6]), (0, data[6:6000]), (0, data[6000:]))
    assert await receive(sender, admission) == data
    assert seen == [(0, 0), (0, 6), (500, 6000), (1000, SIZE)]
    assert (admission.points, admission.bytes) == (0, 0)


async def test_what_arrives_at_a_full_server_is_refused(clock):
    admission = Admission(1000, SIZE)
    with admission.reserve(600, 1), pytest.raises(OverloadedError):
        await receive(Sender(clock, (0, bytes(6000))), admission)
    assert (admission.points, admission.bytes) == (0, 0)


async def test_an_upload_below_the_least_rate_is_refused(clock):
    """A byte every 29 seconds is no silence of 30."""
    trickle = [(29.0, b"\0")] * 10
    with pytest.raises(DeadlinePassedError, match="too little arrived"):
        await receive(Sender(clock, *trickle), Admission(1000, SIZE))
    assert clock[0] < 100 + 3 * 29


async def test_an_upload_at_the_least_rate_is_received(clock):
    steady, size = [(10.0, bytes(10 * BYTES_PER_S))] * 4, 40 * BYTES_PER_S
    admission = Admission(1000, size)
    assert await receive(Sender(clock, *steady), admission, size) == bytes(size)
