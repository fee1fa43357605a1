"""Other implementations of exact farthest point sampling, each used where it is installed.

fpsample and torch-quickfps are bucket samplers whose speed depends on a tree height that their
user must choose; each runs at the best of HEIGHTS for the cloud at hand.
"""

import importlib
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np
import torch
from measure import Call, seconds_of

from farpoint_ops import furthest_point_sample

HEIGHTS = (3, 5, 7, 9)
MAX_BRUTE_FORCE_PAIRS = 3e8


def _module(name: str) -> ModuleType | None:
    try:
        return importlib.import_module(name)
    except (ImportError, OSError):
        return None


def _at_best_height(call: Callable[[int], Any]) -> tuple[Call, int]:
    times = {h: min(seconds_of(partial(call, h)) for _ in range(2)) for h in HEIGHTS}
    best = min(times, key=lambda h: times[h])
    return partial(call, best), best


def _bucket_peers(
    cloud: np.ndarray, batch: torch.Tensor, m: int
) -> dict[str, Callable[[int], Any]]:
    peers: dict[str, Callable[[int], Any]] = {}
    if fpsample := _module("fpsample"):
        peers["fpsample"] = lambda h: fpsample.bucket_fps_kdline_sampling(cloud, m, h, start_idx=0)
    if quick := _module("torch_quickfps"):
        peers["torch-quickfps"] = lambda h: quick.sample_idx(batch, m, h=h, start_idx=0)
    return peers


def _brute_force_peers(cloud: np.ndarray, batch: torch.Tensor, m: int) -> dict[str, Call]:
    peers: dict[str, Call] = {}
    if cluster := _module("torch_cluster"):
        ratio = m / len(cloud)
        peers["torch_cluster"] = lambda: cluster.fps(batch[0], ratio=ratio, random_start=False)
    if open3d := _module("open3d"):
        legacy = open3d.geometry.PointCloud(open3d.utility.Vector3dVector(cloud.astype(np.float64)))
        peers["open3d"] = lambda: legacy.farthest_point_down_sample(m)
    return peers


def contenders(cloud: np.ndarray, m: int) -> tuple[dict[str, Call], dict[str, int]]:
    """Calls that each sample m points of the cloud, and the tree heights chosen."""
    batch = torch.from_numpy(cloud)[None]
    calls: dict[str, Call] = {"farpoint": lambda: furthest_point_sample(batch, m)}
    heights: dict[str, int] = {}
    for name, call in _bucket_peers(cloud, batch, m).items():
        calls[name], heights[name] = _at_best_height(call)
    if len(cloud) * m <= MAX_BRUTE_FORCE_PAIRS:
        calls |= _brute_force_peers(cloud, batch, m)
    return calls, heights
