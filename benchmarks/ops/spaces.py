"""Benchmarks of farthest_point_sample in other dimensions than three."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.common.measure import Call, interleaved_by_cost
from benchmarks.common.peer_modules import module
from benchmarks.common.point_sets import Cloud, lidar
from benchmarks.ops.fps_peers import (
    BUCKET_DIMENSIONS,
    LONGEST_CALL_SECONDS,
    at_best_height,
    expected_seconds,
)
from farpoint_ops import farthest_point_sample

NAMES = ("fpsample", "torch_cluster", "open3d", "torch loop")
# Dimensions, points, samples: maps, and features such as a network samples by.
SIZES = (
    (2, 16_384, 4096),
    (2, 120_000, 1024),
    (8, 4096, 1024),
    (8, 16_384, 1024),
    (16, 4096, 1024),
    (16, 16_384, 1024),
    (32, 4096, 512),
    (64, 4096, 512),
    (64, 16_384, 512),
)

Row = dict[str, Any]


def points_of(dimensions: int, n: int) -> Cloud:
    """A scan seen from above, or normal features."""
    if dimensions == 2:
        return np.ascontiguousarray(lidar(n)[:, :2])
    return np.random.default_rng(0).normal(size=(n, dimensions)).astype(np.float32)


def torch_loop(points: Tensor, m: int) -> Tensor:
    """The usual code without such an op."""
    nearest = torch.full((len(points),), torch.inf)
    rows = torch.zeros(m, dtype=torch.int64)
    for i in range(1, m):
        squared = (points - points[rows[i - 1]]).square().sum(1)
        nearest = torch.minimum(nearest, squared)
        rows[i] = nearest.argmax()
    return rows


def _brute_force_peers(points: Cloud) -> dict[str, Callable[[int], Any]]:
    """Functions of the number of samples."""
    tensor, (n, dimensions) = torch.from_numpy(points), points.shape
    peers: dict[str, Callable[[int], Any]] = {"torch loop": partial(torch_loop, tensor)}
    if cluster := module("torch_cluster"):
        peers["torch_cluster"] = lambda m: cluster.fps(tensor, ratio=m / n, random_start=False)
    if (open3d := module("open3d")) and dimensions < 3:
        filled = np.pad(points.astype(np.float64), ((0, 0), (0, 3 - dimensions)))
        cloud = open3d.geometry.PointCloud(open3d.utility.Vector3dVector(filled))
        peers["open3d"] = lambda m: cloud.farthest_point_down_sample(m)
    if (fpsample := module("fpsample")) and dimensions > BUCKET_DIMENSIONS:
        peers["fpsample"] = lambda m: fpsample.fps_sampling(points, m, start_idx=0)
    return peers


def row(dimensions: int, n: int, m: int) -> Row:
    points = points_of(dimensions, n)
    batch = torch.from_numpy(points)[None]
    calls: dict[str, Call] = {"farpoint": lambda: farthest_point_sample(batch, m)}
    left_out = {}
    for name, sampler in _brute_force_peers(points).items():
        seconds = expected_seconds(sampler, m)
        if seconds > LONGEST_CALL_SECONDS:
            left_out[name] = f"about {seconds:.2g} s a call"
        else:
            calls[name] = partial(sampler, m)
    fpsample = module("fpsample")
    if fpsample and dimensions <= BUCKET_DIMENSIONS:
        bucket = fpsample.bucket_fps_kdline_sampling
        calls["fpsample"], _ = at_best_height(lambda h: bucket(points, m, h, start_idx=0))
    ms = {name: 1e3 * s for name, s in interleaved_by_cost(calls).items()}
    return {
        "dimensions": dimensions,
        "n": n,
        "m": m,
        "farpoint_ms": ms.pop("farpoint"),
        "peers_ms": ms,
        "left_out": left_out,
    }
