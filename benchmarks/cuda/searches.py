"""Benchmarks of CUDA searches against torch's `cdist` and `topk`, and of sampling against others.

The other packages' kernels are those of a file that adapts them. It has `FPS`, a dict of a name and
a sampler: `xyz` of (B, N, 3), float32 on the device, and the number of samples to rows of (B, m),
beginning with row 0.
"""

import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import farpoint_ops
from benchmarks.common.point_sets import lidar
from benchmarks.common.report import shown
from benchmarks.cuda.timing import Call, Sampler, clouds, in_time, step_microseconds, timed

# (clouds, points, queries): points in random order
SIZES = [
    (32, 1024, 256),
    (16, 4096, 1024),
    (1, 16384, 4096),
    (1, 120_000, 16384),
    (1, 120_000, 120_000),
]
NEIGHBORS, RADIUS = 16, 0.5
MOST_DISTANCES = 1 << 31


def torch_knn(xyz: Tensor, queries: Tensor) -> Tensor:
    return torch.cdist(queries, xyz).topk(NEIGHBORS, largest=False).indices


def _milliseconds(xyz: Tensor, queries: Tensor) -> dict[str, float]:
    calls: dict[str, Call] = {
        "knn": lambda: farpoint_ops.knn(xyz, queries, NEIGHBORS),
        "ball_query": lambda: farpoint_ops.ball_query(xyz, queries, RADIUS, NEIGHBORS),
        "nearest_sample": lambda: farpoint_ops.nearest_sample(xyz, queries),
    }
    if len(xyz) * xyz.size(1) * queries.size(1) <= MOST_DISTANCES:
        calls["torch knn"] = lambda: torch_knn(xyz, queries)
    return {name: 1e3 * timed(call) for name, call in calls.items()}


def searches(until: float) -> Iterator[dict[str, Any]]:
    for b, n, m in in_time(SIZES, until):
        xyz = clouds(lidar, n, b)
        queries = xyz[:, torch.randperm(n, device="cuda")[:m]].contiguous()
        ms = _milliseconds(xyz, queries)
        yield shown({"batch": b, "points": n, "queries": m, "k": NEIGHBORS, "ms": ms})


# (clouds, points, samples)
SAMPLED = [
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
    for b, n, m in in_time(SAMPLED, until):
        xyz = clouds(lidar, n, b)
        found = {name: _timed(sampler, xyz, m) for name, sampler in samplers.items()}
        yield shown({"batch": b, "points": n, "samples": m, "samplers": found})
