"""Benchmarks of the CPU ops against the packages people install for the same exact results.

    python -m benchmarks.ops [--only fps|neighbors|gather] [--quick]

Prints tables, and writes benchmarks/results/ops_cpu.{json,md,png} for farthest point sampling and
neighbors_cpu.{json,md,png} for everything else. Medians of rounds in which the contenders take
turns; times in milliseconds; a ratio is the fastest peer's time over ours. One thread, unless a row
says otherwise. `--quick` leaves out the largest and the artificial clouds, and writes nothing.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch

from benchmarks.common.machine import describe
from benchmarks.common.peer_modules import missing
from benchmarks.ops import fps, fps_peers, gather, neighbor_peers, neighbors, spaces
from benchmarks.ops.report import grouped, heading, missing_lines, plot, table, with_ratio

RESULTS = Path(__file__).parents[1] / "results"
FPS_PEERS = ("fpsample", "torch-quickfps", "torch_cluster", "open3d")
PACKAGES = ("torch", *FPS_PEERS, "open3d-cpu", "scipy", "pykdtree")

Row = dict[str, Any]


def announced(rows: Iterable[Row]) -> list[Row]:
    """The rows with their ratios, each shown as soon as it is there."""
    done = []
    for row in rows:
        done.append(with_ratio(row))
        print(json.dumps(done[-1]), file=sys.stderr, flush=True)
    return done


def fps_report(quick: bool) -> Row:
    return {
        "machine": describe(*PACKAGES),
        "missing": missing(fps_peers.MODULES),
        "rows": announced(fps.row(*size) for size in fps.grid(quick)),
        "spaces": announced(spaces.row(*size) for size in spaces.SIZES),
        "threads": [fps.threads_row(*size) for size in fps.THREADS],
        "levels": [fps.levels_row(*size) for size in fps.LEVELS],
        "memory": [fps.memory_row(*size) for size in fps.MEMORY],
    }


def neighbors_report(quick: bool, only: str | None) -> Row:
    report: Row = {
        "machine": describe(*PACKAGES),
        "missing": missing(neighbor_peers.MODULES),
    }
    if only != "gather":
        problems = neighbors.problems(quick)
        report["neighbors"] = announced(r for p in problems for r in neighbors.rows(p))
    if only != "neighbors":
        report["gather"] = announced(r for p in gather.problems() for r in gather.rows(p))
    return report


def fps_markdown(report: Row) -> str:
    rows = [r | {"size": f"{r['n']} → {r['m']}"} for r in report["rows"]]
    lines = [heading(report), ""]
    lines += table(rows, {"points": "points", "size": "N → m"}, FPS_PEERS)
    rows = [r | {"size": f"{r['n']} → {r['m']}"} for r in report["spaces"]]
    lines += ["", *table(rows, {"dimensions": "dimensions", "size": "N → m"}, spaces.NAMES)]
    lines += ["", "| N → m | clouds | two threads over one |", "|---|---|---|"]
    lines += [
        f"| {r['n']} → {r['m']} | {r['batch']} | {r['speedup']:.2f} |" for r in report["threads"]
    ]
    lines += ["", "| N → m | plain ms | AVX2 ms | AVX-512 ms |", "|---|---|---|---|"]
    for r in report["levels"]:
        cells = [f"{r['ms'][k]:.3g}" if k in r["ms"] else "-" for k in ("plain", "avx2", "avx512")]
        lines.append(f"| {r['n']} → {r['m']} | {' | '.join(cells)} |")
    lines += ["", "| N → m | extra bytes a point, at the peak |", "|---|---|"]
    lines += [f"| {r['n']} → {r['m']} | {r['bytes_per_point']:.1f} |" for r in report["memory"]]
    return "\n".join(lines + missing_lines(report)) + "\n"


def neighbors_markdown(report: Row) -> str:
    lines = [heading(report)]
    columns = {"op": "op", "size": "size", "threads": "threads"}
    if "neighbors" in report:
        lines += ["", *table(report["neighbors"], columns, neighbors.NAMES)]
    if "gather" in report:
        columns["step"] = "step"
        lines += ["", *table(report["gather"], columns, gather.NAMES)]
    return "\n".join(lines + missing_lines(report)) + "\n"


def fps_plot(report: Row, path: Path) -> None:
    rows = [r for r in report["rows"] if r["points"] == "lidar"]
    plot(rows, [f"{grouped(r['n'])} → {grouped(r['m'])}" for r in rows], report, path)


def neighbors_plot(report: Row, path: Path) -> None:
    rows = report["neighbors"] + report["gather"]
    labels = [
        f"{r['op']}{' + backward' if 'and' in r.get('step', '') else ''}, "
        f"{r['size']}, {r['threads']} thread{'s' * (r['threads'] > 1)}"
        for r in rows
    ]
    plot(rows, labels, report, path)


def write(report: Row, name: str, markdown: str, draw: Callable[[Row, Path], None]) -> None:
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(report, indent=1) + "\n")
    (RESULTS / f"{name}.md").write_text(markdown)
    draw(report, RESULTS / f"{name}.png")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=("fps", "neighbors", "gather"), help="one part alone")
    parser.add_argument("--quick", action="store_true", help="a few minutes less; no files")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.only in (None, "fps"):
        report = fps_report(arguments.quick)
        print(fps_markdown(report))
        if not arguments.quick:
            write(report, "ops_cpu", fps_markdown(report), fps_plot)
    if arguments.only != "fps":
        report = neighbors_report(arguments.quick, arguments.only)
        print(neighbors_markdown(report))
        if not (arguments.quick or arguments.only):
            write(report, "neighbors_cpu", neighbors_markdown(report), neighbors_plot)


if __name__ == "__main__":
    main()
