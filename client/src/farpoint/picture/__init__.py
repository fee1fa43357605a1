"""Pictures of a cloud next to its sample, with matplotlib, of the optional extra `picture`."""

from pathlib import Path
from typing import Any

import numpy as np

from farpoint._types import Array
from farpoint.io.files import naming, replacing, require
from farpoint.picture.view import View, frame_cloud

__all__ = ["before_after"]

BACKGROUND, INK, FAINT = "#0b0e14", "#e6e6e6", (0.227, 0.271, 0.341)
SIZE_INCHES, DPI = (16.0, 6.4), 100
# Inches of a panel: half of the width, and the height between title and caption.
ASPECT = (SIZE_INCHES[0] * 0.49) / (SIZE_INCHES[1] * 0.86)
# More points than pixels of a panel add time and nothing else.
MAX_POINTS = 300_000


def before_after(
    path: Path,
    points: Array,
    samples: Array,
    *,
    colors: Array | None = None,
    sample_colors: Array | None = None,
    radius: float | None,
    unit: str | None = None,
    exact: bool = True,
) -> None:
    """Writes a PNG of a cloud next to its sample; both are seen from one place.

    Args:
        path: of the picture; it appears whole or not at all.
        points: (N, 3) finite.
        samples: (M, 3).
        colors: (N, 3) uint8; None colors by height.
        sample_colors: (M, 3) uint8, where `colors` is given.
        radius: the covering radius, for the caption; None where it is not measured.
        unit: of the coordinates; None where nothing says which.
        exact: whether `radius` is the covering radius and not only a bound.
    """
    with naming(path):
        require("matplotlib", "A picture", "picture")
        figure = _figure()
        left, right = figure.subplots(1, 2)
        view = frame_cloud(_thinned(points), ASPECT)
        _panel(left, f"{len(points):,} points in", view)
        _panel(right, f"{len(samples):,} points out", view)
        drawn = _thinned(points)
        tints = _tints(drawn, points) if colors is None else _thinned(colors) / 255
        dot = float(np.clip(60_000 / len(drawn), 1, 8))
        seen = view.project(drawn)
        _scatter(left, seen, tints, 1.1 * dot)
        _scatter(right, seen, np.full((len(drawn), 3), FAINT), 0.5 * dot)
        tints = _tints(samples, points) if sample_colors is None else sample_colors / 255
        _scatter(right, view.project(samples), tints, 9 * dot**0.5)
        text = _caption(len(points), len(samples), radius, unit, exact)
        figure.text(0.5, 0.03, text, color=INK, ha="center", fontsize=13, alpha=0.8)
        figure.subplots_adjust(0.005, 0.07, 0.995, 0.93, wspace=0.01)
        with replacing(path) as part:
            figure.savefig(part, format="png")


def _caption(points: int, samples: int, radius: float | None, unit: str | None, exact: bool) -> str:
    if radius is None:
        return f"{samples:,} of {points:,} points"
    within = "within" if exact else "within at most"
    tail = f"of one of the {samples:,} samples"
    start = f"Every one of the {points:,} points lies {within} {radius:.3g}"
    if unit is None:
        return f"{start} units {tail}"
    plural = unit.replace("foot", "feet") if "foot" in unit else f"{unit}s"
    return f"{start} {plural} {tail}"


def _figure() -> Any:
    """Of matplotlib's own objects: pyplot keeps state that threads would share."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=SIZE_INCHES, dpi=DPI, facecolor=BACKGROUND)
    FigureCanvasAgg(figure)
    return figure


def _thinned(values: Array) -> Array:
    return values[:: -(-len(values) // MAX_POINTS)]


def _tints(points: Array, all_points: Array) -> Array:
    """(N, 3) from 0 to 1, by height."""
    from matplotlib import colormaps

    low, high = np.percentile(all_points[:, 2], [2, 98])
    height = np.clip((points[:, 2] - low) / max(float(high - low), 1e-9), 0, 1)
    return np.asarray(colormaps["turbo"](0.14 + 0.76 * height))[:, :3]


def _scatter(axes: Any, seen: Array, tints: Array, size: float) -> None:
    """Far points first, and smaller."""
    order = np.argsort(-seen[:, 2])[: np.isfinite(seen[:, 2]).sum()]
    if not len(order):
        return
    seen = seen[order]
    near = np.minimum(np.median(seen[:, 2]) / seen[:, 2], 2)
    axes.scatter(seen[:, 0], seen[:, 1], s=size * near**2, c=tints[order], linewidths=0)


def _panel(axes: Any, title: str, view: View) -> None:
    axes.set_facecolor(BACKGROUND)
    axes.set_title(title, color=INK, fontsize=19, pad=10)
    axes.set_aspect("equal")
    axes.set_axis_off()
    axes.set_xlim(*view.frame[:2])
    axes.set_ylim(*view.frame[2:])
