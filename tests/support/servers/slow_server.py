"""A farpoint-server whose kernels take their time: seconds per batch, the first argument.

Sampling is as good as ever; a batch of 1000 points or more only begins later, unless all of its
callers give up meanwhile; one of 2000 points or more does not even look. How fast the real kernels
are thus decides no test.
"""

import sys
import time

from farpoint_server import __main__ as command
from farpoint_server.compute import cpu
from farpoint_server.compute.batch import Batch
from farpoint_server.kinds.sample import SampleWork

SLOW_POINTS, STUBBORN_POINTS = 1000, 2000
SECONDS = float(sys.argv.pop(1))
wanted = Batch.wanted


def wanted_late(batch: Batch) -> list[int]:
    """What an engine asks first of a batch that it begins."""
    points = batch.point_count if isinstance(batch.works[0], SampleWork) else 0
    begin = time.monotonic() + (SECONDS if points >= SLOW_POINTS else 0)
    while time.monotonic() < begin and (points >= STUBBORN_POINTS or not batch.cancelled.all()):
        time.sleep(0.002)
    return wanted(batch)


def nothing_is_small(_cores: int) -> int:
    """The event loop must not wait for what takes its time."""
    return -1


Batch.wanted = wanted_late
cpu.inline_limit_ns = nothing_is_small
command.main()
