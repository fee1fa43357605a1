"""Pictures of a cloud next to its sample, with matplotlib."""

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.figure import Figure

BACKGROUND, INK, FAINT = "#0b0e14", "#e6e6e6", (0.227, 0.271, 0.341)
# More points than pixels of a panel add time and nothing else.
MAX_POINTS = 300_000


def before_after(
    path: Path, points: np.ndarray, samples: np.ndarray, *, radius: float, unit: str | None = None
) -> None:
    """Writes a PNG of a cloud next to its sample, colored by height and seen from one place.

    Args:
        path: File to write.
        points: (N, 3) finite.
        samples: (M, 3).
        radius: The covering radius, for the caption.
        unit: Unit of the coordinates; None if it is unknown.
    """
    figure: Any = Figure(figsize=(16, 6.4), dpi=100, facecolor=BACKGROUND)
    frame = np.percentile(np.asarray(points, np.float64), [2, 98], axis=0)
    step = -(-len(points) // MAX_POINTS)
    drawn = points[::step]
    dot = float(np.clip(60_000 / len(drawn), 0.5, 4))
    left = _panel(figure, 1, f"{len(points):,} points in", frame)
    _scatter(left, drawn, frame, _by_height(drawn, frame), 1.5 * dot)
    right = _panel(figure, 2, f"{len(samples):,} points out", frame)
    _scatter(right, drawn, frame, FAINT, 0.5 * dot)
    _scatter(right, samples, frame, _by_height(samples, frame), 12 * dot**0.5)
    text = _caption(len(points), len(samples), radius, unit)
    figure.text(0.5, 0.03, text, color=INK, ha="center", fontsize=13, alpha=0.8)
    figure.subplots_adjust(0, 0.07, 1, 0.93, wspace=0)
    figure.savefig(path, format="png")


def _caption(points: int, samples: int, radius: float, unit: str | None) -> str:
    unit = "unit" if unit is None else unit
    units = unit.replace("foot", "feet") if "foot" in unit else f"{unit}s"
    start = f"Every one of the {points:,} points lies within {radius:.3g} {units}"
    return f"{start} of one of the {samples:,} samples"


def _panel(figure: Any, place: int, title: str, frame: np.ndarray) -> Any:
    axes = figure.add_subplot(1, 2, place, projection="3d", computed_zorder=False)
    axes.set_facecolor(BACKGROUND)
    axes.set_title(title, color=INK, fontsize=19, pad=10)
    axes.set_axis_off()
    axes.set(xlim=frame[:, 0], ylim=frame[:, 1], zlim=frame[:, 2])
    axes.set_box_aspect(np.maximum(np.ptp(frame, axis=0), 1e-9), zoom=1.5)
    axes.view_init(36, -154)  # from behind a shoulder; z is up
    return axes


def _by_height(points: np.ndarray, frame: np.ndarray) -> np.ndarray:
    """(N, 4) from 0 to 1."""
    low, high = frame[:, 2]
    height = np.clip((points[:, 2] - low) / max(float(high - low), 1e-9), 0, 1)
    return np.asarray(colormaps["turbo"](0.14 + 0.76 * height))


def _scatter(axes: Any, points: np.ndarray, frame: np.ndarray, tints: Any, size: float) -> None:
    """The points within the frame: scans have a long tail."""
    inside = ((points >= frame[0]) & (points <= frame[1])).all(axis=1)
    tints = tints[inside] if isinstance(tints, np.ndarray) else tints
    options = {"linewidths": 0, "depthshade": False, "clip_on": False}
    axes.scatter(*points[inside].T, s=size, color=tints, **options)
