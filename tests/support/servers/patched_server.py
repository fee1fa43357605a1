"""A farpoint-server whose batches take their time, or fail as on a GPU.

    python patched_server.py slow SECONDS [FLAG ...]
    python patched_server.py failing [FLAG ...]

Slow: a batch of SLOW_POINTS or more begins so many seconds later, unless all of its callers give up
meanwhile; one of STUBBORN_POINTS or more does not even look. How fast the real kernels are thus
decides no test.

Failing: a batch with a cloud of OOM_POINTS runs out of memory; one with a cloud of LOST_POINTS
meets an error that loses the GPU for good, LOST_MEANWHILE_POINTS do so while a batch of
LARGE_POINTS or more runs, which lasts until the server waits for it.
"""

import sys
import threading
import time
from collections.abc import Sequence

import torch

from farpoint_server import __main__ as command
from farpoint_server.app.server import App
from farpoint_server.compute import cpu
from farpoint_server.compute.batch import Batch
from farpoint_server.kinds.sample import SampleWork

SLOW_POINTS, STUBBORN_POINTS = 1000, 2000
OOM_POINTS = 1300
LOST_POINTS = 1301
LOST_MEANWHILE_POINTS = 50_003
LARGE_POINTS = 500_000
launches, wanted = SampleWork.launches, Batch.wanted
answer_all = App.answer_all
large_began = threading.Event()
server_waits = threading.Event()


def launches_or_failures(works: Sequence[SampleWork]) -> Sequence[object]:
    lengths = [length for work in works for length in work.clouds.lengths]
    if max(lengths) >= LARGE_POINTS:
        large_began.set()
        assert server_waits.wait(60)
    if LOST_MEANWHILE_POINTS in lengths:
        assert large_began.wait(60)
    if LOST_POINTS in lengths or LOST_MEANWHILE_POINTS in lengths:
        raise torch.AcceleratorError("CUDA error: an illegal memory access was encountered")
    if OOM_POINTS in lengths:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB")
    return launches(works)


async def note_and_answer_all(app: App, timeout_s: float, **options: bool) -> bool:
    server_waits.set()
    return await answer_all(app, timeout_s, **options)


def make_slow(seconds: float) -> None:
    def wanted_late(batch: Batch) -> list[int]:
        """What an engine asks first of a batch that it begins."""
        points = batch.point_count if isinstance(batch.works[0], SampleWork) else 0
        begin = time.monotonic() + (seconds if points >= SLOW_POINTS else 0)
        while time.monotonic() < begin and (points >= STUBBORN_POINTS or not batch.cancelled.all()):
            time.sleep(0.002)
        return wanted(batch)

    Batch.wanted = wanted_late


def make_failing() -> None:
    SampleWork.launches = staticmethod(launches_or_failures)
    App.answer_all = note_and_answer_all


if __name__ == "__main__":
    # The event loop runs no kernel.
    cpu.FEW_CORES_NS = cpu.FEW_CORES_BATCH_NS = cpu.MANY_CORES_NS = -1
    if sys.argv.pop(1) == "slow":
        make_slow(float(sys.argv.pop(1)))
    else:
        make_failing()
    command.main()
