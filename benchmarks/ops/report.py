"""Markdown tables and plots of the op benchmarks: our time beside those of other packages.

A row has "farpoint_ms", "peers_ms" by name, and "left_out": why a peer was not timed.
"""

from collections.abc import Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

Row = dict[str, Any]
COLORS = ("#e76f51", "#e9a23b", "#457b9d", "#8d6cab", "#333333")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*")


def with_ratio(row: Row) -> Row:
    """The row with its fastest peer, and how many times as long that one takes as we do."""
    peers = row["peers_ms"]
    best = min(peers, key=lambda name: peers[name]) if peers else None
    ratio = peers[best] / row["farpoint_ms"] if best else None
    return row | {"best_peer": best, "ratio": ratio}


def grouped(number: int) -> str:
    return f"{number:,}".replace(",", " ")


def heading(report: Row) -> str:
    """The machine and versions, for the top of a table or a plot."""
    machine = report["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    return f"{machine['processor']}; Python {machine['python']}; {versions}; {machine['date']}."


def table(rows: Sequence[Row], columns: Mapping[str, str], peers: Sequence[str]) -> list[str]:
    """Lines of a table in milliseconds; `columns` maps the keys that tell rows apart to titles."""
    shown = [p for p in peers if any(p in r["peers_ms"] or p in r["left_out"] for r in rows)]
    lines = [_line([*columns.values(), "farpoint", *shown, "ratio"])]
    lines.append("|" + "---|" * (len(columns) + len(shown) + 2))
    for row in rows:
        cells = [str(row[key]) for key in columns] + [f"{row['farpoint_ms']:.3g}"]
        cells += [_time(row, peer) for peer in shown]
        lines.append(_line([*cells, f"{row['ratio']:.2g}" if row["ratio"] else "-"]))
    return lines


def _time(row: Row, peer: str) -> str:
    if peer in row["peers_ms"]:
        return f"{row['peers_ms'][peer]:.3g}"
    return f"({row['left_out'][peer]})" if peer in row["left_out"] else "-"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def missing_lines(report: Row) -> list[str]:
    return ["", *(f"{name} was left out: {why}." for name, why in report["missing"].items())]


def plot(rows: Sequence[Row], labels: Sequence[str], report: Row, path: Path) -> None:
    """Every peer's time over ours, one line a row, on a logarithmic axis."""
    import matplotlib.pyplot as plt
    from matplotlib.ticker import FuncFormatter

    figure, axes = plt.subplots(figsize=(9, 1.9 + 0.34 * len(rows)), layout="constrained")
    names = list(dict.fromkeys(name for row in rows for name in row["peers_ms"]))
    for name, color, marker in zip(names, cycle(COLORS), cycle(MARKERS), strict=False):
        at = [i for i, row in enumerate(rows) if name in row["peers_ms"]]
        ratios = [rows[i]["peers_ms"][name] / rows[i]["farpoint_ms"] for i in at]
        axes.scatter(ratios, at, color=color, marker=marker, s=46, label=name, zorder=3)
    axes.axvline(1, color="#2a9d8f", linewidth=2.5, label="farpoint")
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}x"))
    axes.set_yticks(range(len(rows)), labels)
    axes.invert_yaxis()
    axes.grid(axis="x", which="both", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.set_xlabel("time of a peer over the time of farpoint: right of the line is slower")
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside upper center", ncols=5, frameon=False)
    figure.text(0.5, -0.01, heading(report), ha="center", va="top", fontsize=7, color="#555555")
    figure.savefig(path, dpi=140, bbox_inches="tight")
    plt.close(figure)
