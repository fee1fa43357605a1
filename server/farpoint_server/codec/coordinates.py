"""Coordinates of any accepted type, as the float32 that the kernels read."""

import numpy as np
import numpy.typing as npt

from farpoint.v1 import tensor_pb2
from farpoint_server.codec.sample_request import Plan
from farpoint_server.codec.tensors import View
from farpoint_server.codec.validation import check_range
from farpoint_server.engine.types import Float32s, Int64s
from farpoint_server.errors import InvalidRequestError

Float64s = npt.NDArray[np.float64]

# Every float16 in float32, by its bits: a look-up takes half as long as numpy's conversion.
_HALVES = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32)


def load_points(plan: Plan) -> tuple[Float32s, Float64s | None]:
    """The clouds of a request in float32, and what was subtracted from each.

    float32 is used as it is, without a copy; halves are widened, which is exact; float64 is
    shifted in float64 to the first finite point of each cloud before it is narrowed.

    Returns:
        Points (P, 3), and origins (B, 3) for float64 or None.

    Raises:
        InvalidRequestError: a row is not finite, or with nonfinite=IGNORE too few rows are.
    """
    values, origins = narrow(plan.points, plan.lengths)
    _check_finite(values, plan)
    return values, origins


def narrow(points: View, lengths: Int64s) -> tuple[Float32s, Float64s | None]:
    """As `load_points`, finite or not."""
    raw = points.array()
    if points.data_type == tensor_pb2.DATA_TYPE_FLOAT64:
        return _shift(raw.astype(np.float64, copy=False), lengths)
    if points.data_type == tensor_pb2.DATA_TYPE_BFLOAT16:
        return (raw.astype(np.uint32) << 16).view(np.float32), None
    if points.data_type == tensor_pb2.DATA_TYPE_FLOAT16:
        return _HALVES.take(raw.view("<u2")), None
    return raw.astype(np.float32, copy=False), None


def _shift(points: Float64s, lengths: Int64s) -> tuple[Float32s, Float64s]:
    narrowed = np.empty(points.shape, np.float32)
    origins = _origins(points, lengths)
    # A coordinate beyond float32 becomes infinite here and is then treated as such.
    with np.errstate(over="ignore", invalid="ignore"):
        # By column: along rows of three numpy takes more than twice as long.
        for axis in range(3):
            np.subtract(
                points[:, axis],
                origins[0, axis] if len(lengths) == 1 else origins[:, axis].repeat(lengths),
                out=narrowed[:, axis],
                casting="same_kind",
            )
    return narrowed, origins


def _origins(points: Float64s, lengths: Int64s) -> Float64s:
    """The first finite row of each cloud, shape (B, 3); zeros where none is."""
    stops = lengths.cumsum()
    starts = stops - lengths
    origins = points[starts]
    for cloud in np.flatnonzero(~np.isfinite(origins).all(axis=1)):
        rows = points[starts[cloud] : stops[cloud]]
        finite = np.isfinite(rows).all(axis=1)
        origins[cloud] = rows[finite.argmax()] if finite.any() else 0
    return origins


def _check_finite(points: Float32s, plan: Plan) -> None:
    if np.isfinite(points).all():
        return
    finite = np.asarray(np.isfinite(points).all(axis=1))
    if plan.ignore_nonfinite:
        stops = plan.lengths.cumsum()
        available = np.add.reduceat(finite, stops - plan.lengths, dtype=np.int64)
        meaning = "the finite points of cloud {}"
        check_range(plan.sample_counts, 1, available, "sample_counts", meaning)
    else:
        expected = "finite coordinates (nonfinite_policy IGNORE samples around others)"
        raise nonfinite(points, finite, plan.lengths, expected)


def nonfinite(
    points: Float32s, finite: npt.NDArray[np.bool_], lengths: Int64s, expected: str
) -> InvalidRequestError:
    """What is said of the first row that is not `finite`."""
    row = int(finite.argmin())
    stops = lengths.cumsum()
    cloud = int(np.searchsorted(stops, row, side="right"))
    values = ", ".join(str(value) for value in points[row])
    return InvalidRequestError(
        "points.data",
        expected,
        f"{len(finite) - int(finite.sum())} rows with NaN or infinity, the first at row "
        f"{row - int(stops[cloud] - lengths[cloud])} of cloud {cloud}: ({values})",
    )
