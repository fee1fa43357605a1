"""A farpoint-server whose kernels take their time: seconds per batch, the first argument.

Sampling is as good as ever; a batch of 1000 points or more only begins later, unless all of its
callers give up meanwhile; one of 2000 points or more does not even look. How fast the real
kernels are thus decides no test.
"""

import sys
import time

import torch

from farpoint_server import __main__ as command
from farpoint_server import engine
from farpoint_server.work import Batch

SLOW_POINTS, STUBBORN_POINTS = 1000, 2000
SECONDS = float(sys.argv.pop(1))
launch = engine.launch


def launch_late(batch: Batch, device: torch.device) -> object:
    points = sum(len(clouds.points) for clouds in batch.requests)
    begin = time.monotonic() + (SECONDS if points >= SLOW_POINTS else 0)
    while time.monotonic() < begin and (points >= STUBBORN_POINTS or not batch.cancelled.all()):
        time.sleep(0.002)
    return launch(batch, device)


engine.launch = launch_late
command.main()
