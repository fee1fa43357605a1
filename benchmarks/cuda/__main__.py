"""Benchmarks of the CUDA kernels: gather, scatter, searches and sampling.

Warm, synchronized, medians of CUDA event times. Sampling is timed per step: a kernel that looks at
every point in every step takes as long for each, so a slow one may be timed over fewer samples
("samples" next to its time). Writes benchmarks/results/cuda_<device>.json, section by section.

    python -m benchmarks.cuda [section ...] [--seconds N] [--peers FILE]
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
from benchmarks.common.point_sets import POINT_SETS, lidar
from benchmarks.common.report import RESULTS, describe, shown
from benchmarks.cuda import gather_scatter, searches
from benchmarks.cuda.timing import clouds, in_time, step_microseconds

Rows = Iterable[dict[str, Any]]
# (points, samples), one cloud; those with a target first.
SIZES = [
    *((4096, 1024), (16384, 4096), (131072, 16384), (262144, 16384), (1048576, 16384)),
    *((1024, 256), (65536, 16384), (8192, 2048), (32768, 8192), (4194304, 16384)),
]
BATCHED = [(16384, 4096), (4096, 1024), (1024, 256), (65536, 16384)]
BATCHES = [32, 16, 128]
MOST_LIDAR_POINTS = 1 << 18  # casting more rays takes longer than measuring
METHODS = ("auto", "block", "grid", "tree", "partitioned")


def methods(until: float) -> Rows:
    """One cloud of every size and shape by each kernel, "auto" the choice of fps/dispatch.cu."""
    cases = [
        (shape, n, m)
        for n, m in SIZES
        for shape in (("lidar", "cube") if n <= MOST_LIDAR_POINTS else ("cube",))
    ]
    for shape, n, m in in_time(cases, until):
        xyz, found = clouds(POINT_SETS[shape], n, 1), {}
        for method in METHODS:
            forced = partial(torch.ops.farpoint._cuda_fps, method=method)
            try:
                found[method] = step_microseconds(forced, xyz, m)
            except ValueError as error:  # not a kernel for this size
                print(f"{method}: left out, {error}")
        yield shown({"shape": shape, "points": n, "samples": m, "methods": found})


def batches(until: float) -> Rows:
    cases = [(b, n, m) for n, m in BATCHED for b in BATCHES]
    for b, n, m in in_time(cases, until):
        timed = step_microseconds(farpoint_ops.farthest_point_sample, clouds(lidar, n, b), m)
        yield shown({"batch": b, "points": n, "samples": m, "timed": timed})


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
    "batches": batches,
    "methods": methods,
    "searches": searches.searches,
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
    parser.add_argument(
        "--peers", type=Path, help="adds the section peers: benchmarks/cuda/searches.py"
    )
    arguments = parser.parse_args()
    if arguments.peers:
        SECTIONS["peers"] = partial(searches.peers, searches.load(arguments.peers))
    unknown = set(arguments.sections) - set(SECTIONS)
    if unknown:
        parser.error(f"sections: expected {', '.join(SECTIONS)}, got {', '.join(sorted(unknown))}")
    if not torch.cuda.is_available():
        raise SystemExit("benchmarks.cuda: torch sees no CUDA device")
    for section in arguments.sections or SECTIONS:
        run(section, time.monotonic() + arguments.seconds)


if __name__ == "__main__":
    main()
