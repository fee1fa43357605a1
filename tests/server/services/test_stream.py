"""How a stream of requests meets the drain of its server."""

import asyncio
from collections.abc import Sequence

import pytest
from tests.support.rpc import CallContext

from farpoint_server.errors import DrainingError
from farpoint_server.services.stream import LAST_S, OrderedStream
from farpoint_server.transport.admission import Admission
from farpoint_server.transport.outgoing import Outgoing


class Echo(OrderedStream):
    async def _handle(self, _: int, raw: bytes, __: float) -> Sequence[bytes]:
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
