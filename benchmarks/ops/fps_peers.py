"""Adapters to other exact farthest point samplers, each used where it is installed.

fpsample and torch-quickfps are bucket samplers whose speed depends on a tree height that their
user must choose; each runs at the best of HEIGHTS for the cloud at hand. The others look at every
point for every sample; where a call would take longer than LONGEST_CALL_SECONDS, judged by a call
for fewer samples, they are left out.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from benchmarks.common.measure import Call, seconds_of
from benchmarks.common.point_sets import Cloud
from benchmarks.common.report import module
from farpoint_ops import farthest_point_sample

MODULES = ("fpsample", "torch_quickfps", "torch_cluster", "open3d")
HEIGHTS = (3, 5, 7, 9)
# Most dimensions of fpsample's bucket sampler.
BUCKET_DIMENSIONS = 8
LONGEST_CALL_SECONDS = 1.5
# Share of the samples that is enough to judge brute force by.
PROBE = 64

Sampler = Callable[[int], Any]


class Contenders(NamedTuple):
    calls: dict[str, Call]
    heights: dict[str, int]
    left_out: dict[str, str]


def torch_loop(points: Tensor, m: int) -> Tensor:
    """The usual code without such an op."""
    nearest = torch.full((len(points),), torch.inf)
    rows = torch.zeros(m, dtype=torch.int64)
    for i in range(1, m):
        squared = (points - points[rows[i - 1]]).square().sum(1)
        nearest = torch.minimum(nearest, squared)
        rows[i] = nearest.argmax()
    return rows


def _bucket_peers(cloud: Cloud, m: int) -> dict[str, Sampler]:
    """Functions of the tree height."""
    peers: dict[str, Sampler] = {}
    batch, dimensions = torch.from_numpy(cloud)[None], cloud.shape[1]
    if (fpsample := module("fpsample")) and dimensions <= BUCKET_DIMENSIONS:
        peers["fpsample"] = lambda h: fpsample.bucket_fps_kdline_sampling(cloud, m, h, start_idx=0)
    if (quick := module("torch_quickfps")) and dimensions == 3:
        peers["torch-quickfps"] = lambda h: quick.sample_idx(batch, m, h=h, start_idx=0)
    return peers


def _brute_force_peers(cloud: Cloud) -> dict[str, Sampler]:
    """Functions of the number of samples."""
    points, (n, dimensions) = torch.from_numpy(cloud), cloud.shape
    peers: dict[str, Sampler] = {}
    if cluster := module("torch_cluster"):
        peers["torch_cluster"] = lambda m: cluster.fps(points, ratio=m / n, random_start=False)
    if (open3d := module("open3d")) and dimensions <= 3:
        filled = np.pad(cloud.astype(np.float64), ((0, 0), (0, 3 - dimensions)))
        legacy = open3d.geometry.PointCloud(open3d.utility.Vector3dVector(filled))
        peers["open3d"] = lambda m: legacy.farthest_point_down_sample(m)
    if (fpsample := module("fpsample")) and dimensions > BUCKET_DIMENSIONS:
        peers["fpsample"] = lambda m: fpsample.fps_sampling(cloud, m, start_idx=0)
    if dimensions != 3:
        peers["torch loop"] = partial(torch_loop, points)
    return peers


def _expected_seconds(sampler: Sampler, m: int) -> float:
    """Of a brute force call for m samples: its time is in proportion to them."""
    few = max(2, m // PROBE)
    return min(seconds_of(partial(sampler, few)) for _ in range(2)) * m / few


def contenders(cloud: Cloud, m: int) -> Contenders:
    """Calls that each sample m points of the cloud, the tree heights chosen, who is left out."""
    batch = torch.from_numpy(cloud)[None]
    found = Contenders({"farpoint": lambda: farthest_point_sample(batch, m)}, {}, {})
    for name, call in _bucket_peers(cloud, m).items():
        times = {h: min(seconds_of(partial(call, h)) for _ in range(2)) for h in HEIGHTS}
        found.heights[name] = min(times, key=times.__getitem__)
        found.calls[name] = partial(call, found.heights[name])
    for name, sampler in _brute_force_peers(cloud).items():
        seconds = _expected_seconds(sampler, m)
        if seconds > LONGEST_CALL_SECONDS:
            found.left_out[name] = f"about {seconds:.2g} s a call"
        else:
            found.calls[name] = partial(sampler, m)
    return found
