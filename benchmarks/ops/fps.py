"""Benchmarks of farthest_point_sample: other samplers, dimensions, threads, SIMD levels, memory."""

from collections.abc import Iterator
from functools import partial

import numpy as np
import torch

from benchmarks.common.measure import in_a_process, interleaved, peak_growth
from benchmarks.common.point_sets import POINT_SETS, Cloud, cube, lidar, street_points
from benchmarks.common.report import Row
from benchmarks.ops.fps_peers import contenders
from farpoint_ops import farthest_point_sample

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
    found = contenders(cloud, m)
    ms = interleaved(found.calls, budget_seconds=1)
    ours = {"n": len(cloud), "m": m, "farpoint_ms": ms.pop("farpoint"), "peers_ms": ms}
    return {**ours, "heights": found.heights, "left_out": found.left_out}


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
