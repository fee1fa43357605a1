"""Plot of the service benchmark: latency above, throughput below."""

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

Row = dict[str, Any]
KEYS = {"p50_ms": "p50, ms", "per_s": "calls a second"}
PEERS = {
    "grpc.aio": ("tab:green", "D"),
    "MLServer": ("tab:orange", "s"),
    "Ray Serve": ("tab:red", "^"),
    "Ray HAProxy": ("tab:purple", "v"),
    "LitServe": ("tab:brown", "P"),
}


def _style(name: str) -> Row:
    """Ours thick, bare gRPC in grays, peers dashed: told apart without color too."""
    family, _, kind = name.partition(", ")
    if family == "farpoint":
        line = ":" if kind == "one index" else "-"
        return {"color": "tab:blue", "marker": "o", "linestyle": line, "linewidth": 2.5}
    if family == "bare":
        gray = {"bytes": "0.75", "protobuf": "0.1"}.get(kind, "0.45")
        return {"color": gray, "marker": ".", "linestyle": "-"}
    color, marker = PEERS[family]
    fill = "none" if kind == "tensor" else "full"
    return {"color": color, "marker": marker, "linestyle": "--", "fillstyle": fill}


def _draw(axes: Axes, rows: list[Row], key: str) -> None:
    for name in dict.fromkeys(row["server"] for row in rows):
        chosen = [row for row in rows if row["server"] == name]
        axes.plot([r["at"] for r in chosen], [r[key] for r in chosen], label=name, **_style(name))
    axes.set(xscale="log", yscale="log", xlabel="calls at a time", ylabel=KEYS[key])
    ticks = sorted({row["at"] for row in rows})
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.set_xticks([], minor=True)
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.grid(axis="y", which="major", alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)


def _number(value: int) -> str:
    return f"{value:,}".replace(",", " ")


def _columns(rows: list[Row]) -> dict[str, list[Row]]:
    columns: dict[str, list[Row]] = {}
    for row in rows:
        if row["mode"] == "echo":
            title = f"echo, {_number(row['points'])} points"
        else:
            title = f"sampling {_number(row['points'])} → {_number(row['samples'])}"
        columns.setdefault(title, []).append(row)
    return columns


def plot(report: Row, path: Path) -> None:
    columns = _columns(report["rows"])
    figure, panels = plt.subplots(2, len(columns), figsize=(3.4 * len(columns), 8.4))
    for column, (title, rows) in enumerate(columns.items()):
        for panel, key in zip(panels[:, column], KEYS, strict=True):
            _draw(panel, rows, key)
        panels[0][column].set_title(title)
    figure.tight_layout(rect=(0, 0.16, 1, 1))
    for column, anchor, title in ((0, 0.02, "echo"), (-1, 0.62, "sampling")):
        handles, labels = panels[0][column].get_legend_handles_labels()
        figure.legend(
            handles,
            labels,
            loc="lower left",
            bbox_to_anchor=(anchor, 0.01),
            ncols=3 if column == 0 else 2,
            title=title,
            alignment="left",
        )
    figure.savefig(path, dpi=110)
    plt.close(figure)
