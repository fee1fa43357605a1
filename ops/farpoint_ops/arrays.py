"""Farthest point sampling of one numpy array on the CPU, with the indices that a server gives."""

from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from farpoint_ops.fps import furthest_point_sample


def furthest_point_sample_array(
    points: NDArray[Any],
    m: int,
    *,
    start: int = 0,
    nonfinite: Literal["reject", "ignore"] = "reject",
) -> NDArray[np.int64]:
    """Pick m points of a cloud, each the farthest from those before it.

    Coordinates become float32 as in Farpoint's server: float16, float32 and integers of up to
    16 bits as they are, float64 and wider integers after the first finite point was subtracted
    in float64, so that map coordinates stay exact.

    Args:
        points: Coordinates (N, 3).
        m: Points to pick.
        start: Row of the first pick; the first finite one stands in for one that is not.
        nonfinite: "reject" makes a row with NaN or infinity an error, "ignore" never picks one.

    Returns:
        Rows of `points`, int64 (m,).

    Raises:
        ValueError: `points` is not (N, 3), m is not in 1..N (with "ignore": of the finite rows),
            or a row is not finite.
        IndexError: `start` is not a row.
    """
    if points.ndim != 2 or points.shape[1] != 3:
        raise ValueError(f"points: expected shape (N, 3), got {list(points.shape)}")
    xyz = _narrow(points)
    finite = int(np.isfinite(xyz).all(axis=1).sum())
    unusable = len(xyz) - finite
    if unusable and nonfinite == "reject":
        raise ValueError(
            f"points: expected finite coordinates, got {unusable} rows with NaN or infinity"
        )
    if m > finite:
        raise ValueError(f"m: expected at most the {finite} finite points, got {m}")
    rows = furthest_point_sample(torch.from_numpy(xyz)[None], m, start=start)
    return rows[0].numpy().astype(np.int64)


def _narrow(points: NDArray[Any]) -> NDArray[np.float32]:
    """A copy in float32, in C order and writable, as torch wants its memory."""
    kind, size = points.dtype.kind, points.dtype.itemsize
    if (kind == "f" and size <= 4) or (kind in "iu" and size <= 2):
        return np.array(points, np.float32, order="C")
    if not (kind in "iu" or (kind == "f" and size == 8)):
        raise ValueError(f"points: expected float16 to float64 or integers, got {points.dtype}")
    wide = points.astype(np.float64)
    finite = np.isfinite(wide).all(axis=1)
    # A coordinate beyond float32 becomes infinite here and is then treated as such.
    with np.errstate(over="ignore", invalid="ignore"):
        return np.ascontiguousarray(wide - wide[finite.argmax()] if finite.any() else wide, "f4")
