"""Benchmarks of the CUDA kernels: gather, scatter and sampling.

Warm, synchronized, medians of CUDA event times. Sampling is timed per step: a kernel that looks at
every point in every step takes as long for each, so a slow one may be timed over fewer samples
("timed" in the results). Writes benchmarks/results/cuda_<device>.json, section by section.

    python -m benchmarks.cuda [section ...] [--seconds N]
"""

import argparse
import json
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import torch

import farpoint_ops
from benchmarks.common.point_sets import cube, lidar
from benchmarks.common.report import RESULTS, describe, shown
from benchmarks.cuda import gather_scatter
from benchmarks.cuda.timing import step_microseconds

Rows = Iterable[dict[str, Any]]
# (points, samples), one cloud; those with a target first.
SIZES = [
    *((4096, 1024), (16384, 4096), (131072, 16384), (262144, 16384), (1048576, 16384)),
    *((1024, 256), (65536, 16384), (8192, 2048), (32768, 8192), (4194304, 16384)),
]
BATCHED = [(16384, 4096), (4096, 1024), (1024, 256), (65536, 16384)]
BATCHES = [32, 16, 128]
MOST_LIDAR_POINTS = 1 << 20  # casting more rays takes longer than measuring
METHODS = ("block", "grid", "tree", "partitioned")


def clouds(shape: Callable[[int], Any], n: int, batch: int) -> torch.Tensor:
    return torch.from_numpy(shape(n)).cuda().expand(batch, -1, -1).contiguous()


def sampling(name: str, xyz: torch.Tensor, m: int) -> dict[str, Any]:
    row = {"shape": name, "batch": xyz.size(0), "points": xyz.size(1), "samples": m}
    return shown(row | {"timed": step_microseconds(farpoint_ops.farthest_point_sample, xyz, m)})


def each_size(measure: Callable[[str, torch.Tensor, int], Any], until: float) -> Rows:
    """One cloud of every size and shape, in the order of SIZES, until the time is up."""
    for n, m in SIZES:
        for shape in (lidar, cube) if n <= MOST_LIDAR_POINTS else (cube,):
            if time.monotonic() > until:
                print(f"left out: {shape.__name__} {n} -> {m}, the time is up")
            else:
                yield measure(shape.__name__, clouds(shape, n, 1), m)


def all_sampling(until: float) -> Rows:
    return each_size(sampling, until)


def batches(until: float) -> Rows:
    for n, m in BATCHED:
        for b in BATCHES:
            if time.monotonic() < until:
                yield sampling("lidar", clouds(lidar, n, b), m)


def methods(until: float) -> Rows:
    """Every kernel of ours, to set fps/dispatch.cu by."""

    def measure(name: str, xyz: torch.Tensor, m: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for method in METHODS:
            forced = partial(torch.ops.farpoint._cuda_fps, method=method)
            try:
                found[method] = step_microseconds(forced, xyz, m)
            except ValueError as error:  # not a kernel for this size
                print(f"{method}: left out, {error}")
        return shown({"shape": name, "points": xyz.size(1), "samples": m, "methods": found})

    return each_size(measure, until)


def device() -> dict[str, Any]:
    properties = torch.cuda.get_device_properties(0)
    return {
        "name": properties.name,
        "processors": properties.multi_processor_count,
        "cuda": torch.version.cuda,
        **describe("torch"),
    }


SECTIONS: dict[str, Callable[[float], Rows]] = {
    "gathers": gather_scatter.gathers,
    "scatters": gather_scatter.scatters,
    "sampling": all_sampling,
    "batches": batches,
    "methods": methods,
}


def save(section: str, rows: list[dict[str, Any]]) -> Path:
    """Replace one section of the results; the others stay, each with the date of its own."""
    about = device()
    target = RESULTS / f"cuda_{about['name'].lower().replace(' ', '_')}.json"
    RESULTS.mkdir(exist_ok=True)
    results = json.loads(target.read_text()) if target.exists() else {}
    results |= {"device": about, section: {"date": about["date"], "rows": rows}}
    target.write_text(json.dumps(results, indent=1) + "\n")
    return target


def run(section: str, until: float) -> None:
    """Saves after every row, so that a crash or an end of the time costs no more than one."""
    rows: list[dict[str, Any]] = []
    for row in SECTIONS[section](until):
        rows.append(row)
        target = save(section, rows)
    print(f"{section}: {target}" if rows else f"{section}: nothing measured")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sections", nargs="*", help=f"of {', '.join(SECTIONS)}; all unless named")
    parser.add_argument("--seconds", type=float, default=3600, help="for each section, about")
    arguments = parser.parse_args()
    unknown = set(arguments.sections) - set(SECTIONS)
    if unknown:
        parser.error(f"sections: expected {', '.join(SECTIONS)}, got {', '.join(sorted(unknown))}")
    if not torch.cuda.is_available():
        raise SystemExit("benchmarks.cuda: torch sees no CUDA device")
    for section in arguments.sections or SECTIONS:
        run(section, time.monotonic() + arguments.seconds)


if __name__ == "__main__":
    main()
