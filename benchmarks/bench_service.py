"""The server against bare gRPC: what its parts cost, and what it does with dead work.

    python benchmarks/bench_service.py [--quick]

Prints a table, and writes benchmarks/results/service.{json,md,png}. Every contender runs in each
round, so that all meet the same machine; the figures are medians of the rounds.
"""

import argparse
import asyncio
import json
import os
import statistics
from collections import defaultdict
from pathlib import Path
from typing import Any

from machine import describe
from service_load import SAMPLE, Server, cancel, expire, load, request, serving

HERE = Path(__file__).parent
RESULTS = HERE / "results"
SIZES = {1024: 1500, 16_384: 500, 120_000: 120}
CONCURRENCY = (1, 16, 64)
ROUNDS = 3
ECHO_SERVER = str(HERE / "echo_server.py")

Row = dict[str, Any]


def contenders(bare: Server, ours: Server, points: int) -> dict[str, tuple[Server, str, bytes]]:
    """Server, method and request of each. What comes back is the cloud, or one index."""
    whole = request(points, points, return_points=True)
    one = request(points, 1)
    return {
        "bare, bytes": (bare, "/bare.Echo/Bytes", whole),
        "bare, protobuf": (bare, "/bare.Echo/Protobuf", whole),
        # Beside the cloud this answers its indices: a third more bytes than the bare ones.
        "farpoint, cloud back": (ours, SAMPLE, whole),
        "farpoint, one index back": (ours, SAMPLE, one),
    }


def echo_rows(sizes: dict[int, int], rounds: int) -> list[Row]:
    """Every contender at every size and concurrency."""
    rows = []
    with serving(ECHO_SERVER, "bare") as bare, serving(ECHO_SERVER, "farpoint") as ours:
        for points, calls in sizes.items():
            for concurrency in CONCURRENCY:
                measured: dict[str, list[Row]] = defaultdict(list)
                for _ in range(rounds):
                    for name, (server, method, data) in contenders(bare, ours, points).items():
                        measured[name].append(load(server, method, data, concurrency, calls))
                for name, results in measured.items():
                    figures = {k: statistics.median(r[k] for r in results) for k in results[0]}
                    rows.append({"server": name, "points": points, "at": concurrency, **figures})
                    print(json.dumps(rows[-1]), flush=True)
    return rows


def dead_work() -> Row:
    """With the real kernels: deadlines that pass by the dozen, and cancels in mid-sampling."""
    with serving(ECHO_SERVER, "kernels") as server:
        large = request(300_000, 300_000)
        expired = asyncio.run(expire(server.address, large, 96, 1.5))
        huge = request(1_000_000, 1_000_000)
        cancelled = [asyncio.run(cancel(server.address, huge, 0.25)) for _ in range(9)]
    return {**expired, "free_after_cancel_ms": cancelled}


def markdown(report: Row) -> str:
    lines = [f"Load average before: {report['load_average']}.", ""]
    lines.append("| server | N | at | p50 ms | p99 ms | per s | CPU ms |")
    lines.append("|---|---|---|---|---|---|---|")
    for r in report["rows"]:
        figures = " | ".join(f"{r[k]:.3g}" for k in ("p50_ms", "p99_ms", "per_s", "cpu_ms"))
        lines.append(f"| {r['server']} | {r['points']} | {r['at']} | {figures} |")
    dead = report["dead_work"]
    median = statistics.median(dead["free_after_cancel_ms"])
    lines += [
        "",
        f"After 96 requests with 1.5 s deadlines ({dead['codes']}) the next was answered in "
        f"{dead['idle_after_s']:.3f} s. After a cancel in mid-sampling, in {median:.1f} ms "
        f"(median of {len(dead['free_after_cancel_ms'])}).",
    ]
    return "\n".join(lines) + "\n"


def plot(report: Row, path: Path) -> None:
    import matplotlib.pyplot as plt

    sizes = sorted({r["points"] for r in report["rows"]})
    figure, panels = plt.subplots(2, len(sizes), figsize=(11, 6), layout="constrained")
    for column, points in enumerate(sizes):
        for row, (key, label) in enumerate((("p50_ms", "p50, ms"), ("per_s", "calls a second"))):
            axes = panels[row][column]
            for name in dict.fromkeys(r["server"] for r in report["rows"]):
                chosen = [r for r in report["rows"] if (r["server"], r["points"]) == (name, points)]
                axes.plot([r["at"] for r in chosen], [r[key] for r in chosen], "o-", label=name)
            axes.set(xscale="log", yscale="log", xlabel="calls at a time", ylabel=label)
            axes.set_title(f"{points:,} points".replace(",", " "))
            axes.spines[["top", "right"]].set_visible(False)
    panels[0][0].legend(fontsize="small")
    figure.savefig(path, dpi=140)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer calls, one round, no files")
    quick = parser.parse_args().quick
    sizes = {points: calls // 10 for points, calls in SIZES.items()} if quick else SIZES
    report: Row = {
        "machine": describe("grpcio", "protobuf", "torch"),
        "load_average": os.getloadavg(),
        "rows": echo_rows(sizes, 1 if quick else ROUNDS),
        "dead_work": dead_work(),
    }
    print(markdown(report))
    if quick:
        return
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "service.json").write_text(json.dumps(report, indent=1) + "\n")
    (RESULTS / "service.md").write_text(markdown(report))
    plot(report, RESULTS / "service.png")


if __name__ == "__main__":
    main()
