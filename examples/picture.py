"""Matplotlib picture of a cloud and its samples side by side, in perspective."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from PIL import Image

BACKGROUND, INK, FAINT = "#0b0e14", "#e6e6e6", "#3a4557"
AZIMUTH, ELEVATION, FIELD_OF_VIEW = np.radians([-154.0, 36.0, 45.0])


def before_after(points: np.ndarray, samples: np.ndarray, caption: str, path: Path) -> None:
    """Writes a picture of `points` (N, 3) beside `samples` (M, 3); both use one view."""
    center, radius = _heart(points)
    shade = _shades(points, points)
    figure, (left, right) = plt.subplots(1, 2, figsize=(16, 6.4), dpi=100, facecolor=BACKGROUND)
    _panel(left, f"{len(points):,} points in")
    _panel(right, f"{len(samples):,} points out")
    everything = _project(points, center, radius)
    dot = float(np.clip(60_000 / len(points), 1, 8))
    _scatter(left, everything, shade, 1.1 * dot)
    _scatter(right, everything, np.full(len(points), np.nan), 0.5 * dot)
    _scatter(right, _project(samples, center, radius), _shades(samples, points), 9 * dot**0.5)
    figure.text(0.5, 0.03, caption, color=INK, ha="center", fontsize=13, alpha=0.8)
    figure.subplots_adjust(0.005, 0.07, 0.995, 0.93, wspace=0.01)
    figure.canvas.draw()
    # A palette makes the file a third of its size, and nothing is lost to the eye.
    image = Image.fromarray(np.asarray(figure.canvas.buffer_rgba())).convert("RGB")
    palette = Image.Quantize.MAXCOVERAGE
    image.quantize(256, palette, dither=Image.Dither.NONE).save(path, optimize=True)
    plt.close(figure)


def _heart(points: np.ndarray) -> tuple[np.ndarray, float]:
    """Middle of the dense part of the cloud and the radius of what is shown around it."""
    center = np.median(points, axis=0)
    half, most = np.percentile(np.linalg.norm(points - center, axis=1), [50, 95])
    return center, max(float(min(1.7 * half, 1.25 * most)), 1e-9)


def _project(points: np.ndarray, center: np.ndarray, radius: float) -> np.ndarray:
    """Pinhole view: columns right, up and depth, NaN for what is behind the eye."""
    ca, sa, ce, se = np.cos(AZIMUTH), np.sin(AZIMUTH), np.cos(ELEVATION), np.sin(ELEVATION)
    right, up = np.array([-sa, ca, 0]), np.array([-ca * se, -sa * se, ce])
    toward = np.array([ca * ce, sa * ce, se])
    eye = center + toward * radius / np.tan(FIELD_OF_VIEW / 2)
    view = (points - eye) @ np.column_stack([right, up, -toward])
    depth = np.where(view[:, 2] > 0.05 * radius, view[:, 2], np.nan)
    return np.column_stack([view[:, :2] / depth[:, None], depth])


def _shades(points: np.ndarray, all_points: np.ndarray) -> np.ndarray:
    low, high = np.percentile(all_points[:, 2], [2, 98])
    return np.clip((points[:, 2] - low) / max(high - low, 1e-9), 0, 1)


def _scatter(axes: Axes, view: np.ndarray, shade: np.ndarray, size: float) -> None:
    order = np.argsort(-view[:, 2])[: np.isfinite(view[:, 2]).sum()]
    view, shade = view[order], shade[order]
    near = np.minimum(np.median(view[:, 2]) / view[:, 2], 2)
    colors = plt.get_cmap("turbo")(0.14 + 0.76 * shade)
    colors[np.isnan(shade)] = matplotlib.colors.to_rgba(FAINT)
    axes.scatter(view[:, 0], view[:, 1], s=size * near**2, c=colors, linewidths=0)


def _panel(axes: Axes, title: str) -> None:
    axes.set_facecolor(BACKGROUND)
    axes.set_title(title, color=INK, fontsize=19, pad=10)
    axes.set_aspect("equal")
    axes.set_axis_off()
    half = np.tan(FIELD_OF_VIEW / 2)
    axes.set_xlim(-1.15 * half, 1.15 * half)
    axes.set_ylim(-0.8 * half, 0.8 * half)
