"""Benchmarks of CUDA searches against torch's `cdist` and `topk`, which hold all distances."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

import farpoint_ops
from benchmarks.common.point_sets import lidar
from benchmarks.common.report import shown
from benchmarks.cuda.timing import Call, clouds, in_time, timed

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
