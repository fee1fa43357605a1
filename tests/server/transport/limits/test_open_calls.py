"""What an open call holds, and lets go of at its end."""

import asyncio
import gc
import weakref

import pytest
from google.rpc import error_details_pb2
from tests.support.rpc import CallContext

from farpoint_server.errors import DrainingError, TooManyCallsError
from farpoint_server.scheduling.admission import Admission, CallSlots
from farpoint_server.transport.limits.open_calls import InFlight, OpenCalls, Outgoing


class Context:
    """As gRPC's: it keeps its callbacks after it has called them."""

    def __init__(self) -> None:
        self.callbacks = []

    def add_done_callback(self, callback) -> None:
        self.callbacks.append(callback)

    def peer(self) -> str:
        return "ipv4:10.1.2.3:5000"


async def test_a_call_that_has_ended_is_freed_without_the_garbage_collector():
    admission = Admission(10, 100, 1)
    calls = OpenCalls(InFlight(), None, Outgoing(admission))
    context = Context()
    gc.disable()
    try:
        calls.accept(context, None).answer(context, b"answer")
        assert admission.bytes == 6
        for callback in context.callbacks:
            callback(context)
        del callback
        freed = weakref.ref(context)
        del context
        assert freed() is None
    finally:
        gc.enable()
    assert admission.bytes == 0


async def test_a_drain_accepts_nothing_and_waits_for_the_last_answer():
    in_flight = InFlight()
    await asyncio.wait_for(in_flight.drain(), 30)
    in_flight = InFlight()
    calls = OpenCalls(in_flight, None, None)
    contexts = [CallContext(), CallContext()]
    for context in contexts:
        calls.accept(context, None)
    draining = asyncio.create_task(in_flight.drain())
    await asyncio.sleep(0)
    with pytest.raises(DrainingError):
        calls.accept(CallContext(), None)
    contexts[0].end()
    await asyncio.sleep(0)
    assert (in_flight.calls, draining.done(), in_flight.draining.is_set()) == (1, False, True)
    contexts[1].end()
    await asyncio.wait_for(draining, 30)


async def test_a_call_without_a_slot_is_not_in_flight():
    in_flight, slots = InFlight(), CallSlots(1, 1, 1)
    calls = OpenCalls(in_flight, None, None)
    assert calls.slots_of("farpoint.v1.SamplingService/Sample") is None
    first, refused = CallContext(), CallContext()
    calls.accept(first, slots)
    with pytest.raises(TooManyCallsError):
        calls.accept(refused, slots)
    assert in_flight.calls == 1
    refused.end()
    first.end()
    assert in_flight.calls == 0
    calls.accept(CallContext(), slots)


@pytest.mark.parametrize(
    ("answer", "size"),
    [
        (b"four", 4),
        (error_details_pb2.ErrorInfo(reason="seven.."), 9),
        (None, 0),
        ("of no known size", 0),
    ],
)
@pytest.mark.parametrize("counts", [True, False])
async def test_what_an_answer_counts(answer, size, counts):
    admission, context = Admission(10, 100, 1), CallContext()
    outgoing = Outgoing(admission) if counts else None
    OpenCalls(InFlight(), None, outgoing).accept(context, None).answer(context, answer)
    assert admission.bytes == size * counts
    context.end()
    assert admission.bytes == 0
