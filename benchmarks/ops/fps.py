"""Benchmarks of farthest_point_sample: other samplers, dimensions, threads, SIMD levels, memory.

Other exact samplers are used where they are installed. fpsample and torch-quickfps are bucket
samplers whose speed depends on a tree height that their user must choose; each runs at the best of
HEIGHTS for the cloud at hand. Samplers that look at every point for every sample are slower by far.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.common.point_sets import POINT_SETS, Cloud, cube, lidar, street_points
from benchmarks.common.report import (
    Call,
    Row,
    in_a_process,
    interleaved,
    module,
    peak_growth,
    seconds_of,
)
from farpoint_ops import farthest_point_sample

MODULES = ("fpsample", "torch_quickfps")
HEIGHTS = (3, 5, 7, 9)
# Most dimensions of fpsample's bucket sampler.
BUCKET_DIMENSIONS = 8

Sampler = Callable[[int], Any]


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


def _plain_peers(cloud: Cloud, m: int) -> dict[str, Call]:
    """Calls where no bucket sampler leaves anything out."""
    points, dimensions = torch.from_numpy(cloud), cloud.shape[1]
    peers: dict[str, Call] = {}
    if (fpsample := module("fpsample")) and dimensions > BUCKET_DIMENSIONS:
        peers["fpsample"] = lambda: fpsample.fps_sampling(cloud, m, start_idx=0)
    if dimensions != 3:
        peers["torch loop"] = partial(torch_loop, points, m)
    return peers


def contenders(cloud: Cloud, m: int) -> tuple[dict[str, Call], dict[str, int]]:
    """Calls that each sample m points of the cloud, and the tree heights chosen."""
    batch, heights = torch.from_numpy(cloud)[None], {}
    calls = {"farpoint": lambda: farthest_point_sample(batch, m), **_plain_peers(cloud, m)}
    for name, call in _bucket_peers(cloud, m).items():
        times = {h: min(seconds_of(partial(call, h)) for _ in range(2)) for h in HEIGHTS}
        heights[name] = min(times, key=times.__getitem__)
        calls[name] = partial(call, heights[name])
    return calls, heights


LIDAR = [
    *((1024, 256), (4096, 1024), (16_384, 1024), (16_384, 4096)),
    *((65_536, 16_384), (120_000, 1024), (120_000, 16_384), (1_000_000, 16_384)),
]
STREET = [(4096, 1024), (16_384, 4096), (65_536, 16_384)]
OTHERS = [(1024, 16), (1024, 256), (16_384, 4096), (120_000, 16)]
# Dimensions, points, samples: maps, and features such as a network samples by.
SPACES = (
    *((2, 16_384, 4096), (2, 120_000, 1024), (8, 4096, 1024), (8, 16_384, 1024)),
    *((16, 4096, 1024), (16, 16_384, 1024), (32, 4096, 512), (64, 4096, 512), (64, 16_384, 512)),
)
# Points, samples, clouds.
THREADS = (
    *((65_536, 16_384, 1), (120_000, 1024, 1), (120_000, 16_384, 1)),
    *((1_000_000, 16_384, 1), (16_384, 4096, 16)),
)
LEVELS = [(4096, 1024), (120_000, 16_384)]
MEMORY = [(120_000, 1024), (1_000_000, 1024), (4_000_000, 1024)]


def rows(quick: bool) -> Iterator[Row]:
    sizes = [("lidar", n, m) for n, m in LIDAR if not quick or n <= 120_000]
    sizes += [("street", n, m) for n, m in STREET if n <= street_points()]
    if not quick:
        others = (name for name in POINT_SETS if name not in ("lidar", "street"))
        sizes += [(points, n, m) for points in others for n, m in OTHERS]
    for points, n, m in sizes:
        yield {"points": points, **_row(POINT_SETS[points](n), m)}


def spaces() -> Iterator[Row]:
    """A scan seen from above, and normal features."""
    for dimensions, n, m in SPACES:
        features = np.random.default_rng(0).normal(size=(n, dimensions)).astype(np.float32)
        cloud = np.ascontiguousarray(lidar(n)[:, :2]) if dimensions == 2 else features
        yield {"dimensions": dimensions, **_row(cloud, m)}


def _row(cloud: Cloud, m: int) -> Row:
    calls, heights = contenders(cloud, m)
    ms = interleaved(calls, budget_seconds=1)
    ours = {"n": len(cloud), "m": m, "farpoint_ms": ms.pop("farpoint"), "peers_ms": ms}
    return {**ours, "heights": heights, "left_out": {}}


def threads_row(n: int, m: int, batch: int) -> Row:
    """One thread against two, on our own op."""
    clouds = torch.from_numpy(lidar(n))[None].expand(batch, -1, -1).contiguous()

    def with_threads(count: int) -> None:
        torch.set_num_threads(count)
        farthest_point_sample(clouds, m)

    calls = {"one": partial(with_threads, 1), "two": partial(with_threads, 2)}
    # Enough rounds to outlast the moments in which something else has the second core.
    medians = interleaved(calls, rounds=101)
    torch.set_num_threads(1)
    return {"n": n, "m": m, "batch": batch, "speedup": medians["one"] / medians["two"]}


def levels_row(n: int, m: int) -> Row:
    """The same cloud with each instruction set that the processor has."""
    cloud = torch.from_numpy(lidar(n))[None]
    cpu_simd = torch.ops.farpoint._cpu_simd

    def at(level: str) -> None:
        cpu_simd(level)
        farthest_point_sample(cloud, m)

    levels = [level for level in ("plain", "avx2", "avx512") if cpu_simd(level) == level]
    ms = interleaved({level: partial(at, level) for level in levels}, rounds=7)
    cpu_simd("")
    return {"n": n, "m": m, "ms": ms}


def memory_row(n: int, m: int) -> Row:
    """Memory that one call needs beyond its input."""
    return {"n": n, "m": m, "bytes_per_point": in_a_process(_growth, n, m) / n}


def _growth(n: int, m: int) -> int:
    torch.set_num_threads(1)
    cloud = torch.from_numpy(cube(n))[None]
    farthest_point_sample(cloud[:, :4096], 512)
    return peak_growth(lambda: farthest_point_sample(cloud, m))
