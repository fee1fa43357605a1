"""Adapters to other exact farthest point samplers, each used where it is installed.

fpsample and torch-quickfps are bucket samplers whose speed depends on a tree height that their
user must choose; each runs at the best of HEIGHTS for the cloud at hand. torch_cluster and Open3D
look at every point for every sample; where a call would take longer than LONGEST_CALL_SECONDS,
judged by a call for fewer samples, they are left out.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch

from benchmarks.common.measure import Call, seconds_of
from benchmarks.common.peer_modules import module
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


def at_best_height(call: Callable[[int], Any]) -> tuple[Call, int]:
    """A call of a tree height, at the best one, and that."""
    times = {h: min(seconds_of(partial(call, h)) for _ in range(2)) for h in HEIGHTS}
    best = min(times, key=lambda h: times[h])
    return partial(call, best), best


def _bucket_peers(
    cloud: np.ndarray, batch: torch.Tensor, m: int
) -> dict[str, Callable[[int], Any]]:
    peers: dict[str, Callable[[int], Any]] = {}
    if fpsample := module("fpsample"):
        peers["fpsample"] = lambda h: fpsample.bucket_fps_kdline_sampling(cloud, m, h, start_idx=0)
    if quick := module("torch_quickfps"):
        peers["torch-quickfps"] = lambda h: quick.sample_idx(batch, m, h=h, start_idx=0)
    return peers


def _brute_force_peers(cloud: np.ndarray, batch: torch.Tensor) -> dict[str, Sampler]:
    """Functions of the number of samples."""
    peers: dict[str, Sampler] = {}
    if cluster := module("torch_cluster"):
        n = len(cloud)
        peers["torch_cluster"] = lambda m: cluster.fps(batch[0], ratio=m / n, random_start=False)
    if open3d := module("open3d"):
        legacy = open3d.geometry.PointCloud(open3d.utility.Vector3dVector(cloud.astype(np.float64)))
        peers["open3d"] = lambda m: legacy.farthest_point_down_sample(m)
    return peers


def expected_seconds(sampler: Sampler, m: int) -> float:
    """Of a brute force call for m samples: its time is in proportion to them."""
    few = max(2, m // PROBE)
    return min(seconds_of(partial(sampler, few)) for _ in range(2)) * m / few


def contenders(cloud: np.ndarray, m: int) -> Contenders:
    """Calls that each sample m points of the cloud, the tree heights chosen, who is left out."""
    batch = torch.from_numpy(cloud)[None]
    found = Contenders({"farpoint": lambda: farthest_point_sample(batch, m)}, {}, {})
    for name, call in _bucket_peers(cloud, batch, m).items():
        found.calls[name], found.heights[name] = at_best_height(call)
    for name, sampler in _brute_force_peers(cloud, batch).items():
        seconds = expected_seconds(sampler, m)
        if seconds > LONGEST_CALL_SECONDS:
            found.left_out[name] = f"about {seconds:.2g} s a call"
        else:
            found.calls[name] = partial(sampler, m)
    return found
