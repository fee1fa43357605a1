"""Benchmarks of farthest_point_sample: other samplers, threads, SIMD levels, memory."""

import json
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch

from benchmarks.common.measure import interleaved, interleaved_by_cost
from benchmarks.common.point_sets import POINT_SETS, cube, street_points
from benchmarks.ops.fps_peers import contenders
from farpoint_ops import farthest_point_sample

LIDAR = [
    (1024, 256),
    (4096, 1024),
    (16_384, 1024),
    (16_384, 4096),
    (65_536, 16_384),
    (120_000, 1024),
    (120_000, 16_384),
    (1_000_000, 16_384),
]
STREET = [(4096, 1024), (16_384, 4096), (65_536, 16_384)]
OTHERS = [(1024, 16), (1024, 256), (4096, 1024), (16_384, 4096), (120_000, 16), (120_000, 4096)]
# Points, samples, clouds.
THREADS = (
    (65536, 16384, 1),
    (120000, 1024, 1),
    (120000, 16384, 1),
    (1000000, 16384, 1),
    (16384, 4096, 16),
)
LEVELS = [(4096, 1024), (120_000, 16_384)]
MEMORY = [(120_000, 1024), (1_000_000, 1024), (4_000_000, 1024)]

Row = dict[str, Any]


def grid(quick: bool) -> Iterator[tuple[str, int, int]]:
    for n, m in LIDAR:
        if not quick or n <= 120_000:
            yield "lidar", n, m
    yield from (("street", n, m) for n, m in STREET if n <= street_points())
    if not quick:
        for points in (name for name in POINT_SETS if name not in ("lidar", "street")):
            yield from ((points, n, m) for n, m in OTHERS)


def row(points: str, n: int, m: int) -> Row:
    found = contenders(POINT_SETS[points](n), m)
    ms = {name: 1e3 * s for name, s in interleaved_by_cost(found.calls).items()}
    return {
        "points": points,
        "n": n,
        "m": m,
        "farpoint_ms": ms.pop("farpoint"),
        "peers_ms": ms,
        "heights": found.heights,
        "left_out": found.left_out,
    }


def threads_row(n: int, m: int, batch: int) -> Row:
    """One thread against two, on our own op."""
    clouds = torch.from_numpy(POINT_SETS["lidar"](n))[None].expand(batch, -1, -1).contiguous()

    def with_threads(count: int) -> None:
        torch.set_num_threads(count)
        farthest_point_sample(clouds, m)

    calls = {"one": lambda: with_threads(1), "two": lambda: with_threads(2)}
    # Enough rounds to outlast the moments in which something else has the second core.
    medians = interleaved(calls, 101)
    torch.set_num_threads(1)
    return {"n": n, "m": m, "batch": batch, "speedup": medians["one"] / medians["two"]}


def levels_row(n: int, m: int) -> Row:
    """The same cloud with each instruction set that the processor has."""
    cloud = torch.from_numpy(POINT_SETS["lidar"](n))[None]
    cpu_simd = torch.ops.farpoint._cpu_simd

    def at(level: str) -> None:
        cpu_simd(level)
        farthest_point_sample(cloud, m)

    levels = [level for level in ("plain", "avx2", "avx512") if cpu_simd(level) == level]
    medians = interleaved({level: partial(at, level) for level in levels}, 7)
    cpu_simd("")
    return {"n": n, "m": m, "ms": {level: 1e3 * s for level, s in medians.items()}}


def memory_row(n: int, m: int) -> Row:
    """Memory that one call needs beyond its input, in a process of its own; Linux only."""
    command = [sys.executable, "-m", "benchmarks.ops.fps", str(n), str(m)]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return {"n": n, "m": m, "bytes_per_point": json.loads(output) / n}


def _resident_bytes(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(field))


def _growth(n: int, m: int) -> int:
    """Bytes by which one call raises the resident size of this process at its peak."""
    torch.set_num_threads(1)
    cloud = torch.from_numpy(cube(n))[None]
    farthest_point_sample(cloud[:, :4096], 512)
    before = _resident_bytes("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    farthest_point_sample(cloud, m)
    return _resident_bytes("VmHWM") - before


if __name__ == "__main__":
    print(_growth(int(sys.argv[1]), int(sys.argv[2])))
