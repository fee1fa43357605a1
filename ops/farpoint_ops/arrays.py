"""Farthest point sampling of one numpy array, with the indices that a server gives."""

from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from farpoint_ops.fps import farthest_point_sample


class ArraySample(NamedTuple):
    """The picks of one cloud."""

    rows: NDArray[np.int64]
    """Shape (m,)."""
    distances: NDArray[np.float32]
    """Shape (m,): the covering radius after each pick."""
    origin: NDArray[np.float64] | None
    """Shape (3,): what was subtracted before coordinates became float32; None if nothing was."""


def sample_array(
    points: NDArray[Any],
    num_samples: int,
    *,
    start: int = 0,
    nonfinite: Literal["reject", "ignore"] = "reject",
    radius: float | None = None,
    device: str | torch.device = "cpu",
) -> ArraySample:
    """Pick points of a cloud, each the farthest from those before it.

    Coordinates become float32 as in Farpoint's server: float16, float32 and integers of up to
    16 bits as they are, float64 and wider integers after the first finite point was subtracted
    in float64, so that map coordinates stay exact.

    Args:
        points: Coordinates (N, 3).
        num_samples: Points to pick (m); with `radius` the most.
        start: Row of the first pick; the first finite one stands in for one that is not.
        nonfinite: "reject" makes a row with NaN or infinity an error, "ignore" never picks one.
        radius: Where picking ends, at the first covering radius that is at most this.
        device: Where the cloud is sampled.

    Raises:
        ValueError: `points` is not (N, 3), m is not in 1..N (with "ignore": of the finite rows),
            a row is not finite, or the radius is negative.
        IndexError: `start` is not a row.
    """
    if points.ndim != 2 or points.shape[1] != 3:
        raise ValueError(f"points: expected shape (N, 3), got {list(points.shape)}")
    xyz, origin = _narrow(points)
    finite = int(np.isfinite(xyz).all(axis=1).sum())
    unusable = len(xyz) - finite
    if unusable and nonfinite == "reject":
        raise ValueError(
            f"points: expected finite coordinates, got {unusable} rows with NaN or infinity"
        )
    if num_samples > finite and radius is None:
        raise ValueError(
            f"num_samples: expected at most the {finite} finite points, got {num_samples}"
        )
    cloud = torch.from_numpy(xyz).to(device)[None]
    found: tuple[torch.Tensor, ...] = farthest_point_sample(
        cloud, num_samples, start=start, radius=radius, return_distances=True
    )
    rows, distances = (values.cpu().numpy().reshape(-1) for values in found[:2])
    return ArraySample(rows.astype(np.int64), distances, origin)


def _narrow(points: NDArray[Any]) -> tuple[NDArray[np.float32], NDArray[np.float64] | None]:
    """A copy in float32, in C order and writable, as torch wants its memory; and its origin."""
    kind, size = points.dtype.kind, points.dtype.itemsize
    if (kind == "f" and size <= 4) or (kind in "iu" and size <= 2):
        return np.array(points, np.float32, order="C"), None
    if not (kind in "iu" or (kind == "f" and size == 8)):
        raise ValueError(f"points: expected float16 to float64 or integers, got {points.dtype}")
    wide = points.astype(np.float64)
    finite = np.isfinite(wide).all(axis=1)
    origin = wide[finite.argmax()] if finite.any() else np.zeros(3)
    # A coordinate beyond float32 becomes infinite here and is then treated as such.
    with np.errstate(over="ignore", invalid="ignore"):
        return np.ascontiguousarray(wide - origin, "f4"), origin
