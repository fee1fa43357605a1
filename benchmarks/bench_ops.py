"""Exact farthest point sampling on the CPU against the packages people install.

    python benchmarks/bench_ops.py [--quick]

Prints a table, and writes benchmarks/results/ops_cpu.{json,md,png}. One thread unless a row says
otherwise; medians of interleaved rounds; a ratio is the fastest peer's time over ours.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import torch
from fps_peers import contenders
from machine import describe
from measure import interleaved, rounds_for, seconds_of
from point_sets import POINT_SETS

from farpoint_ops import furthest_point_sample

RESULTS = Path(__file__).parent / "results"
PEERS = ("fpsample", "torch-quickfps", "torch_cluster", "open3d")
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
OTHERS = [(1024, 16), (1024, 256), (4096, 1024), (16_384, 4096), (120_000, 16), (120_000, 4096)]

Row = dict[str, Any]


def row(points: str, n: int, m: int) -> Row:
    cloud = POINT_SETS[points](n)
    calls, heights = contenders(cloud, m)
    slowest = max(seconds_of(call) for call in calls.values())
    medians = interleaved(calls, rounds_for(slowest))
    ours = medians.pop("farpoint")
    best = min(medians, key=lambda name: medians[name]) if medians else None
    return {
        "points": points,
        "n": n,
        "m": m,
        "farpoint_ms": 1e3 * ours,
        "peers_ms": {name: 1e3 * seconds for name, seconds in medians.items()},
        "heights": heights,
        "best_peer": best,
        "ratio": medians[best] / ours if best else None,
    }


def threads_row(n: int, m: int, batch: int) -> Row:
    """One thread against two, on our own op."""
    clouds = torch.from_numpy(POINT_SETS["lidar"](n))[None].expand(batch, -1, -1).contiguous()

    def with_threads(count: int) -> None:
        torch.set_num_threads(count)
        furthest_point_sample(clouds, m)

    calls = {"one": lambda: with_threads(1), "two": lambda: with_threads(2)}
    medians = interleaved(calls, 15)
    torch.set_num_threads(1)
    return {"n": n, "m": m, "batch": batch, "speedup": medians["one"] / medians["two"]}


def levels_row(n: int, m: int) -> Row:
    """The same cloud with each instruction set that the processor has."""
    cloud = torch.from_numpy(POINT_SETS["lidar"](n))[None]
    cpu_simd = torch.ops.farpoint._cpu_simd

    def at(level: str) -> None:
        cpu_simd(level)
        furthest_point_sample(cloud, m)

    levels = [level for level in ("plain", "avx2", "avx512") if cpu_simd(level) == level]
    medians = interleaved({level: (lambda level=level: at(level)) for level in levels}, 7)
    cpu_simd("")
    return {"n": n, "m": m, "ms": {level: 1e3 * s for level, s in medians.items()}}


def markdown(report: Row) -> str:
    lines = ["| points | N → m | farpoint ms | best peer ms | ratio |", "|---|---|---|---|---|"]
    for r in report["rows"]:
        peer = f"{r['peers_ms'][r['best_peer']]:.3g} {r['best_peer']}" if r["best_peer"] else "-"
        ratio = f"{r['ratio']:.1f}" if r["ratio"] else "-"
        lines.append(
            f"| {r['points']} | {r['n']} → {r['m']} | {r['farpoint_ms']:.3g} | {peer} | {ratio} |"
        )
    lines += ["", "| N → m | clouds | two threads over one |", "|---|---|---|"]
    lines += [
        f"| {r['n']} → {r['m']} | {r['batch']} | {r['speedup']:.2f} |" for r in report["threads"]
    ]
    lines += ["", "| N → m | plain ms | AVX2 ms | AVX-512 ms |", "|---|---|---|---|"]
    for r in report["levels"]:
        cells = [f"{r['ms'][k]:.3g}" if k in r["ms"] else "-" for k in ("plain", "avx2", "avx512")]
        lines.append(f"| {r['n']} → {r['m']} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def plot(report: Row, path: Path) -> None:
    import matplotlib.pyplot as plt

    rows = [r for r in report["rows"] if r["points"] == "lidar" and r["ratio"]]
    labels = [f"{r['n']:,} → {r['m']:,}".replace(",", " ") for r in rows]
    figure, axes = plt.subplots(figsize=(8, 4), layout="constrained")
    bars = axes.barh(labels, [r["ratio"] for r in rows], color="#2a9d8f")
    axes.bar_label(bars, [f"{r['ratio']:.1f}x" for r in rows], padding=4)
    axes.invert_yaxis()
    axes.axvline(1, color="#555555", linewidth=1)
    axes.set_xlabel("times faster than the fastest other exact sampler (one thread, LiDAR scan)")
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=140)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="LiDAR up to 120 000 points only")
    quick = parser.parse_args().quick
    torch.set_num_threads(1)
    grid = [("lidar", n, m) for n, m in LIDAR if not quick or n <= 120_000]
    if not quick:
        grid += [(points, n, m) for points in POINT_SETS if points != "lidar" for n, m in OTHERS]
    report: Row = {"machine": describe("torch", *PEERS), "rows": []}
    for points, n, m in grid:
        report["rows"].append(row(points, n, m))
        print(json.dumps(report["rows"][-1]), flush=True)
    report["threads"] = [threads_row(120_000, 1024, 1), threads_row(120_000, 16_384, 1)]
    report["threads"].append(threads_row(16_384, 4096, 16))
    report["levels"] = [levels_row(n, m) for n, m in [(4096, 1024), (120_000, 16_384)]]
    print(markdown(report))
    if quick:
        return
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "ops_cpu.json").write_text(json.dumps(report, indent=1) + "\n")
    (RESULTS / "ops_cpu.md").write_text(markdown(report))
    plot(report, RESULTS / "ops_cpu.png")


if __name__ == "__main__":
    main()
