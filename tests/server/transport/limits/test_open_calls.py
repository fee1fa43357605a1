"""What an open call holds, and lets go of at its end."""

import gc
import weakref

from farpoint_server.scheduling.admission import Admission
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
