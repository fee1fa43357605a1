"""Headerless .bin of little-endian float32 rows: three columns, KITTI's four, nuScenes' five.

Nothing in the file says how wide its rows are, so the values decide: read at the right width each
column holds values of one kind, and read at another the kinds are mixed.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from farpoint._types import Array
from farpoint.io.cloud import Cloud, ReadOptions, Rows
from farpoint.io.records import AXES, named_columns

# Clouds of other formats lack what this one has, or have what it lacks.
WRITES_OWN = True
_KITTI = (*AXES, "intensity")
_NUSCENES = (*_KITTI, "ring")
_WIDTHS = range(3, 9)
_EXAMPLES = {
    3: "x,y,z",
    4: "x,y,z,i",
    5: "x,y,z,i,ring",
    6: "x,y,z,r,g,b",
    7: "x,y,z,r,g,b,label",
    8: "x,y,z,i,r,g,b,label",
}
# Rows looked at, all over the file, as rows that follow one another are often alike; and the share
# of the best width's score that a smaller width needs: a multiple of the right width separates the
# columns as well.
_ROWS, _ENOUGH = 20_000, 0.9
# Coordinates, colors and times are not beyond these; integers and bytes read as floats are.
_SMALLEST, _LARGEST, _STRANGE = 1e-20, 1e12, 0.01
_VIEWS: tuple[Callable[[Array], Array], ...] = (
    lambda values: values,
    lambda values: np.log2(np.abs(values) + 2.0**-40),
    lambda values: (values == np.floor(values)).astype(np.float64),
    lambda values: (values < 0).astype(np.float64),
)


@dataclass(frozen=True)
class BinSource:
    """All columns, (N, columns) float32."""

    array: Array

    def save(self, path: Path, rows: Rows) -> None:
        """Writes the rows with all their columns."""
        self.array[rows].tofile(path)


def read(path: Path, options: ReadOptions) -> Cloud:
    """Reads the columns of the options, else three or KITTI's four, by their values."""
    size = path.stat().st_size
    values = np.fromfile(path, "<f4") if size % 4 == 0 else np.empty(0, "<f4")
    is_nuscenes = path.name.lower().endswith(".pcd.bin")
    names = options.columns or _guess_columns(values, size, _NUSCENES if is_nuscenes else _KITTI)
    if size % (4 * len(names)):
        raise ValueError(f"expected rows of {len(names)} float32, got {size} bytes")
    array = values.reshape(-1, len(names))
    return Cloud(*named_columns(array, names), BinSource(array))


def _guess_columns(values: Array, size: int, usual: tuple[str, ...]) -> tuple[str, ...]:
    shown = np.abs(values[np.isfinite(values)])
    strange = ((shown > 0) & (shown < _SMALLEST)) | (shown > _LARGEST)
    if np.count_nonzero(strange) > _STRANGE * len(values):
        raise ValueError(
            f"{np.count_nonzero(strange)} of {len(values)} values are no coordinates: this .bin "
            "seems to hold no rows of float32; --columns x,y,z reads it all the same"
        )
    fitting = [width for width in _WIDTHS if size % (4 * width) == 0]
    width = fitting[0] if len(fitting) == 1 else _width_of(values, fitting)
    if width is None and usual is _NUSCENES and len(usual) in fitting:
        width = len(usual)  # as its name says
    if not size or width == len(usual):
        return usual
    if width == len(AXES):
        return AXES
    if width:
        found = f"seems to hold rows of {width} float32"
    else:
        found = f"its {size} bytes are rows of {', '.join(map(str, fitting)) or 'no'} float32"
    raise ValueError(
        f"expected rows of 3 or {len(usual)} float32, {found}: name the columns, as in "
        f"--columns {_EXAMPLES[width or 5]}, or let the name of nuScenes' five end in .pcd.bin"
    )


def _width_of(values: Array, widths: list[int]) -> int | None:
    """The smallest width with clearly different columns; None if there is none."""
    scores = {width: _separation(values.reshape(-1, width)) for width in widths}
    best = max(scores.values(), default=0.0)
    if best <= 0:
        return None
    return next(width for width in widths if scores[width] >= _ENOUGH * best)


def _separation(rows: Array) -> float:
    """The variance between columns over that of all values, in several views, above chance."""
    if len(rows) > _ROWS:
        rows = rows[np.random.default_rng(0).integers(len(rows), size=_ROWS)]
    table = np.nan_to_num(rows.astype(np.float64), posinf=0, neginf=0)
    score = 0.0
    for view in _VIEWS:
        seen = view(table)
        # Without the few values that would outweigh all others.
        seen = np.clip(seen, *np.percentile(seen, [1, 99])) if seen.size else seen
        spread = float(seen.var()) if seen.size else 0.0
        score += float(seen.mean(axis=0).var()) / spread if spread else 0.0
    return score - 0.02 - 8 / max(len(rows), 1)
