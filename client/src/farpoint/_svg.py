"""Point clouds as inline SVG, for the `_repr_html_` of results in notebooks."""

from collections.abc import Iterator
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

# A sample's first rows are a sample themselves, so drawing no more leaves the shape as it is.
MAX_POINTS = 1500
SIDE = 260
MARGIN = 8
# From low to high, of matplotlib's viridis: seen apart in grey and by the color-blind too.
COLORS = ("#440154", "#433e85", "#2d708e", "#1e9b8a", "#51c369", "#b8de29")
AZIMUTH, ELEVATION = np.radians(-60), np.radians(30)


def figure(points: NDArray[Any], caption: str) -> str:
    """HTML of points (N, 3), seen from above at a slant, in colors of their height."""
    return (
        '<figure style="display:inline-block;margin:0 1em 0 0">'
        f"{_svg(points)}"
        f'<figcaption style="font-size:small;max-width:{SIDE}px">{escape(caption)}</figcaption>'
        "</figure>"
    )


def _svg(points: NDArray[Any]) -> str:
    shown = points[:MAX_POINTS].astype(np.float64)
    shown = shown[np.isfinite(shown).all(axis=1)]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{SIDE}" height="{SIDE}" '
        f'viewBox="0 0 {SIDE} {SIDE}" role="img" fill="none" stroke-linecap="round" '
        f'stroke-width="{_dot_size(len(shown)):.1f}">{"".join(_paths(shown))}</svg>'
    )


def _dot_size(count: int) -> float:
    """In pixels; fewer points are drawn larger."""
    return float(np.clip(60 / np.sqrt(max(count, 1)), 2, 7))


def _paths(points: NDArray[np.float64]) -> Iterator[str]:
    """One path per color, of lines without length, whose round ends are the dots."""
    if not len(points):
        return
    across, up = _project(points).T
    heights = points[:, 2] / 2  # as in `_project`
    low, high = heights.min(), heights.max()
    shares = (heights - low) / ((high - low) or 1)
    bands = np.minimum((shares * len(COLORS)).astype(int), len(COLORS) - 1)
    for band in np.unique(bands):
        rows = np.flatnonzero(bands == band)
        dots = "".join(f"M{across[row]:.1f} {up[row]:.1f}h0" for row in rows)
        yield f'<path stroke="{COLORS[band]}" d="{dots}"/>'


def _project(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Pixels (N, 2) of a parallel projection that fills the picture, z upwards."""
    # Halved first, so that not even the extent of the largest coordinates overflows.
    halves = points / 2
    centered = halves - (halves.min(axis=0) / 2 + halves.max(axis=0) / 2)
    centered /= np.abs(centered).max() or 1
    x, y, z = centered.T
    across = np.cos(AZIMUTH) * y - np.sin(AZIMUTH) * x
    depth = np.cos(AZIMUTH) * x + np.sin(AZIMUTH) * y
    up = np.cos(ELEVATION) * z - np.sin(ELEVATION) * depth
    flat = np.stack([across, -up], axis=1)
    low, high = flat.min(axis=0), flat.max(axis=0)
    shares = (flat - (low + high) / 2) / ((high - low).max() or 1)
    pixels: NDArray[np.float64] = shares * (SIDE - 2 * MARGIN) + SIDE / 2
    return pixels
