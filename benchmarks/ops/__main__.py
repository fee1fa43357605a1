"""Benchmarks of the CPU ops against the packages people install for the same exact results.

    python -m benchmarks.ops [--only fps|neighbors|gather] [--quick]

Prints tables, and writes benchmarks/results/ops_cpu.json for farthest point sampling and
neighbors_cpu.json for everything else. Medians of rounds in which the contenders take turns; times
in milliseconds; a ratio is the fastest peer's time over ours. One thread, unless a row has
another number. `--quick` leaves out the largest and the artificial clouds, and writes nothing.
"""

import argparse
from collections.abc import Iterable, Mapping, Sequence

import torch

from benchmarks.common.report import Row, describe, heading, missing, number, shown, table, write
from benchmarks.ops import fps, gather, neighbors

PACKAGES = ("torch", "fpsample", "torch-quickfps", "torch_cluster", "open3d", "open3d-cpu")
PACKAGES += ("pykdtree",)
SIZE = {"n": "N", "m": "m"}


def with_ratios(rows: Iterable[Row]) -> list[Row]:
    """The rows with their fastest peer, and how many times as long that one takes as we do."""
    done = []
    for row in rows:
        peers = row["peers_ms"]
        best = min(peers, key=peers.__getitem__, default=None)
        ratio = peers[best] / row["farpoint_ms"] if best else None
        done.append(shown(row | {"best_peer": best, "ratio": ratio}))
    return done


def compared(rows: Sequence[Row], columns: Mapping[str, str]) -> str:
    """A table of peers; `columns` maps the keys that distinguish rows to titles."""
    peers = list(dict.fromkeys(p for r in rows for p in (*r["peers_ms"], *r["left_out"])))

    def cell(row: Row, peer: str) -> str:
        if peer in row["peers_ms"]:
            return number(row["peers_ms"][peer])
        return f"({row['left_out'][peer]})" if peer in row["left_out"] else "-"

    return table(
        [*columns.values(), "farpoint", *peers, "ratio"],
        (
            (
                *(*(r[key] for key in columns), r["farpoint_ms"]),
                *(*(cell(r, p) for p in peers), r["ratio"] or "-"),
            )
            for r in rows
        ),
    )


def plain(rows: Sequence[Row]) -> str:
    """A table of all that the rows have."""
    flat = [{k: v for k, v in {**row, **row.get("ms", {})}.items() if k != "ms"} for row in rows]
    return table(list(flat[0]), (list(row.values()) for row in flat))


def fps_report(quick: bool) -> tuple[Row, list[str]]:
    report = {
        "machine": describe(*PACKAGES),
        "missing": missing(fps.MODULES),
        "rows": with_ratios(fps.rows(quick)),
        "spaces": with_ratios(fps.spaces()),
        "threads": [fps.threads_row(*size) for size in fps.THREADS],
        "levels": [fps.levels_row(*size) for size in fps.LEVELS],
        "memory": [fps.memory_row(*size) for size in fps.MEMORY],
    }
    tables = [compared(report["rows"], {"points": "points"} | SIZE)]
    tables.append(compared(report["spaces"], {"dimensions": "dimensions"} | SIZE))
    return report, tables + [plain(report[key]) for key in ("threads", "levels", "memory")]


def neighbors_report(quick: bool, only: str | None) -> tuple[Row, list[str]]:
    report: Row = {"machine": describe(*PACKAGES), "missing": missing(neighbors.MODULES)}
    columns, tables = {"op": "op", "size": "size", "threads": "threads"}, []
    if only != "gather":
        report["neighbors"] = with_ratios(neighbors.rows(quick))
        tables.append(compared(report["neighbors"], columns))
    if only != "neighbors":
        report["gather"] = with_ratios(gather.rows())
        tables.append(compared(report["gather"], columns | {"step": "step"}))
    return report, tables


def show(report: Row, tables: Sequence[str]) -> None:
    absent = [f"{name} was left out: {why}." for name, why in report["missing"].items()]
    print("\n\n".join([heading(report["machine"]), *tables, *absent]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=("fps", "neighbors", "gather"), help="one part alone")
    parser.add_argument("--quick", action="store_true", help="a few minutes less; no files")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.only in (None, "fps"):
        report, tables = fps_report(arguments.quick)
        show(report, tables)
        if not arguments.quick:
            write("ops_cpu", report)
    if arguments.only != "fps":
        report, tables = neighbors_report(arguments.quick, arguments.only)
        show(report, tables)
        if not (arguments.quick or arguments.only):
            write("neighbors_cpu", report)


if __name__ == "__main__":
    main()
