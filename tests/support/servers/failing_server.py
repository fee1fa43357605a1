"""A farpoint-server on a device that fails as a GPU does.

A batch with a cloud of OOM_POINTS runs out of memory; one with a cloud of LOST_POINTS meets an
error that loses the GPU for good, LOST_MEANWHILE_POINTS do so while a batch of LARGE_POINTS or more
runs, which lasts until the server waits for it.
"""

import threading
from collections.abc import Sequence

import torch

from farpoint_server import __main__ as command
from farpoint_server.app.server import App
from farpoint_server.compute import cpu
from farpoint_server.kinds.sample import SampleWork

OOM_POINTS = 1300
LOST_POINTS = 1301
LOST_MEANWHILE_POINTS = 50_003
LARGE_POINTS = 500_000
launches = SampleWork.launches
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


if __name__ == "__main__":
    SampleWork.launches = staticmethod(launches_or_failures)
    cpu.inline_limit_ns = lambda _cores: -1  # the event loop runs no kernel
    App.answer_all = note_and_answer_all
    command.main()
