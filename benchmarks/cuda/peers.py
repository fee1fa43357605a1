"""Benchmarks of sampling against other packages' kernels, from a file that adapts them.

The file has `FPS`, a dict of a name and a sampler: `xyz` of (B, N, 3), float32 on the device, and
the number of samples to rows of (B, m), beginning with row 0.
"""

import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from torch import Tensor

import farpoint_ops
from benchmarks.common.point_sets import lidar
from benchmarks.common.report import shown
from benchmarks.cuda.timing import Sampler, clouds, in_time, step_microseconds

# (clouds, points, samples)
SIZES = [
    *((1, 1024, 256), (1, 4096, 1024), (1, 16384, 4096), (1, 65536, 16384)),
    *((1, 120_000, 4096), (1, 1_000_000, 16384)),
    *((16, 4096, 1024), (32, 1024, 256), (32, 16384, 4096), (128, 4096, 1024)),
]


def load(path: Path) -> dict[str, Sampler]:
    return {"farpoint": farpoint_ops.farthest_point_sample, **runpy.run_path(str(path))["FPS"]}


def _timed(sampler: Sampler, xyz: Tensor, m: int) -> dict[str, Any]:
    """Time, and the share of rows that are ours."""
    try:
        found = step_microseconds(sampler, xyz, m)
        rows = sampler(xyz, found["samples"])
    except RuntimeError as error:  # a size that this kernel does not take
        return {"error": str(error).splitlines()[0]}
    ours = farpoint_ops.farthest_point_sample(xyz, found["samples"])
    return {**found, "equal": (rows.view_as(ours) == ours).double().mean().item()}


def peers(samplers: dict[str, Sampler], until: float) -> Iterator[dict[str, Any]]:
    for b, n, m in in_time(SIZES, until):
        xyz = clouds(lidar, n, b)
        found = {name: _timed(sampler, xyz, m) for name, sampler in samplers.items()}
        yield shown({"batch": b, "points": n, "samples": m, "samplers": found})
