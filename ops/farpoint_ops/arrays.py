"""Farthest point sampling of a numpy array, with the same indices as the server."""

from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from farpoint_ops.fps import farthest_point_sample


class ArraySample(NamedTuple):
    """The sample of one cloud."""

    rows: NDArray[np.int64]
    """Shape (m,)."""
    distances: NDArray[np.float32]
    """Shape (m,): the covering radius after each sample."""
    origin: NDArray[np.float64] | None
    """Shape (3,): subtracted before the narrowing to float32; None if nothing was subtracted."""


def sample_array(
    points: NDArray[Any],
    num_samples: int,
    *,
    start: int = 0,
    nonfinite: Literal["reject", "ignore"] = "reject",
    radius: float | None = None,
    device: str | torch.device = "cpu",
) -> ArraySample:
    """Samples points of a cloud by farthest point sampling.

    Coordinates become float32 as in Farpoint's server: float16, float32 and integers of up to
    16 bits directly, float64 and wider integers after the first finite point is subtracted in
    float64, so that map coordinates stay exact.

    Args:
        points: Coordinates (N, 3).
        num_samples: Number of samples (m); with `radius` the maximum.
        start: Row of the first sample; if it is not finite, the first finite row is used.
        nonfinite: "reject" makes a row with NaN or infinity an error, "ignore" never samples one.
        radius: Ends sampling at the first covering radius that is at most this.
        device: Device that samples.

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
            f"points: expected finite coordinates, got {unusable} rows with NaN, infinity or "
            "values beyond float32"
        )
    if num_samples > finite and radius is None:
        raise ValueError(
            f"num_samples: expected at most the {finite} points that are finite in float32, "
            f"got {num_samples}"
        )
    cloud = torch.from_numpy(xyz).to(device)[None]
    found: tuple[torch.Tensor, ...] = farthest_point_sample(
        cloud, num_samples, start=start, radius=radius, return_distances=True
    )
    rows, distances = (values.cpu().numpy().reshape(-1) for values in found[:2])
    return ArraySample(rows.astype(np.int64), distances, origin)


def _narrow(points: NDArray[Any]) -> tuple[NDArray[np.float32], NDArray[np.float64] | None]:
    """A writable float32 copy in C order, and the origin that was subtracted."""
    kind, size = points.dtype.kind, points.dtype.itemsize
    if (kind == "f" and size <= 4) or (kind in "iu" and size <= 2):
        return np.array(points, np.float32, order="C"), None
    if not (kind in "iu" or (kind == "f" and size == 8)):
        raise ValueError(f"points: expected float16 to float64 or integers, got {points.dtype}")
    wide = points.astype(np.float64)
    finite = np.isfinite(wide).all(axis=1)
    origin = wide[finite.argmax()] if finite.any() else np.zeros(3)
    # A coordinate beyond float32 becomes infinite and is treated as such.
    with np.errstate(over="ignore", invalid="ignore"):
        return np.ascontiguousarray(wide - origin, "f4"), origin
