"""A stream of requests: what it reads ahead, when it is idle, and how it meets a drain."""

import asyncio
from collections.abc import Sequence

import pytest
from tests.support.rpc import CallContext

from farpoint_server.errors import DeadlinePassedError, DrainingError
from farpoint_server.services.stream import AHEAD, LAST_S, OrderedStream
from farpoint_server.transport.admission import Admission
from farpoint_server.transport.outgoing import Outgoing


class Echo(OrderedStream):
    async def _handle(self, _: int, raw: bytes, __: float) -> Sequence[bytes]:
        return [raw]


class Held(OrderedStream):
    """Answers when the test says so."""

    def __init__(self, context: CallContext, idle_s: float) -> None:
        super().__init__(context, Outgoing(Admission(9, 9, 1)), idle_s)
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
    stream = asyncio.create_task(Echo(context, Outgoing(Admission(9, 9, 1)), 300).run(draining))
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
