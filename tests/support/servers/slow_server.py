"""A farpoint-server whose kernels take their time: seconds per batch, the first argument.

Sampling is as good as ever; a batch of 1000 points or more only begins later, unless all of its
callers give up meanwhile; one of 2000 points or more does not even look. How fast the real kernels
are thus decides no test.
"""

import sys
import time
from collections.abc import Sequence

from farpoint_server import __main__ as command
from farpoint_server.engine import engine, sample
from farpoint_server.engine.sample import SampleBatch
from farpoint_server.engine.transfer.pipeline import Pipeline
from farpoint_server.engine.types import Clouds, Int32s

SLOW_POINTS, STUBBORN_POINTS = 1000, 2000
SECONDS = float(sys.argv.pop(1))
launch = sample.launch
submit = SampleBatch._submit


def wait(requests: Sequence[Clouds], cancelled: Int32s) -> None:
    points = sum(len(clouds.points) for clouds in requests)
    begin = time.monotonic() + (SECONDS if points >= SLOW_POINTS else 0)
    while time.monotonic() < begin and (points >= STUBBORN_POINTS or not cancelled.all()):
        time.sleep(0.002)


def launch_late(requests: Sequence[Clouds], cancelled: Int32s) -> object:
    wait(requests, cancelled)
    return launch(requests, cancelled)


def submit_late(batch: SampleBatch, pipeline: Pipeline) -> object:
    """What a GPU has instead of a launch."""
    wait(batch.requests, batch.cancelled)
    return submit(batch, pipeline)


def nothing_is_small(_cores: int) -> int:
    """The event loop must not wait for what takes its time."""
    return -1


sample.launch = launch_late
SampleBatch._submit = submit_late
engine.inline_limit_ns = nothing_is_small
command.main()
