"""Ratios and Markdown tables of the benchmark of models."""

from typing import Any

from benchmarks.service.report import conditions, number, table, weights

Row = dict[str, Any]
FLOOR = "in this process"


def ratios(rows: list[Row]) -> list[Row]:
    """Calls and CPU beside the best peer of each size and number of callers."""
    found = []
    for row in (row for row in rows if row["server"].startswith("farpoint")):
        place = [r for r in rows if (r["points"], r["at"]) == (row["points"], row["at"])]
        others = [r for r in place if not r["server"].startswith(("farpoint", FLOOR))]
        if others:
            best = max(others, key=lambda r: r["per_s"])
            found.append(_ratio(row, best))
    return found


def _ratio(ours: Row, best: Row) -> Row:
    return {
        "ours": ours["server"],
        "best_peer": best["server"],
        "points": ours["points"],
        "at": ours["at"],
        "calls_ratio": ours["per_s"] / best["per_s"],
        "cpu_ratio": ours["cpu_ms"] / best["cpu_ms"],
    }


def markdown(report: Row) -> str:
    """The whole report."""
    judged = table(
        ("server", "best peer", "N", "at", "calls/s ratio", "CPU ratio"),
        (
            (
                r["ours"],
                r["best_peer"],
                r["points"],
                r["at"],
                f"{r['calls_ratio']:.2f}",
                f"{r['cpu_ratio']:.2f}",
            )
            for r in report["ratios"]
        ),
    )
    keys = ("p50_ms", "p99_ms", "per_s", "cpu_ms")
    measured = table(
        ("server", "N", "at", "p50 ms", "p99 ms", "calls/s", "CPU ms a call"),
        (
            (r["server"], r["points"], r["at"], *(number(r[key]) for key in keys))
            for r in report["rows"]
        ),
    )
    sections = [
        f"{conditions(report)}\n* {report['threads']} threads each. PointNet++ (SSG "
        "classification) of the paper's size, random weights, points of a unit sphere.",
        "## Ratios",
        judged,
        "## Measured",
        measured,
        "## Servers",
        "Memory is the proportional set size of all processes of a server.",
        weights(report["servers"]),
    ]
    return "\n\n".join(sections) + "\n"
