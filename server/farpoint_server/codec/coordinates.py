"""Decodes requests: coordinates of every dtype to float32, float64 shifted to a local origin."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from farpoint.v1 import tensor_pb2
from farpoint_server.codec.dtypes import ELEMENT_TYPES, widened
from farpoint_server.codec.method import check_grid
from farpoint_server.codec.packed import PackedView
from farpoint_server.codec.sample_request import ParsedSampleRequest
from farpoint_server.codec.tensors import TensorView, check_range
from farpoint_server.compute.arrays import Float32s, Float64s, Int64s
from farpoint_server.errors import InvalidRequestError
from farpoint_server.kinds.method import Method, MethodClouds, MethodWork, VoxelGrid
from farpoint_server.kinds.sample import Clouds, SampleWork

# float32 of every float16, by its bits: a look-up takes half as long as numpy's conversion.
_HALVES = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32)


class DecodedSampleRequest(NamedTuple):
    """The work of one request, and the data for its response."""

    request: ParsedSampleRequest
    work: SampleWork | MethodWork
    origins: Float64s | None
    """Shape (B, 3): subtracted from each float64 cloud; None for other types."""


def decode_sample_request(request: ParsedSampleRequest) -> DecodedSampleRequest:
    """Work for the engine; the coordinates are validated here."""
    if request.shared_bytes or not request.points.is_aligned:
        attributes = tuple((name, values.owned()) for name, values in request.attributes)
        sent = request.points.owned()
        request = request._replace(points=sent, attributes=attributes, shared_bytes=0)
    if request.method is not None:
        return DecodedSampleRequest(request, MethodWork(_for_method(request, request.method)), None)
    lengths, counts = request.lengths, request.sample_counts
    each_count = _broadcast(counts, len(lengths))
    each_start = _broadcast(request.starts, len(lengths))
    points, origins = to_float32(request.points, lengths)
    radius = request.covering_radius
    needed = None
    if request.ignore_nonfinite:
        needed = counts if radius is None else np.ones(1, np.int64)
    check_finite(points, lengths, needed, request.points.field)
    clouds = Clouds(points, lengths, each_count, each_start, request.return_distances, radius)
    return DecodedSampleRequest(request, SampleWork(clouds), origins)


def _for_method(request: ParsedSampleRequest, method: Method) -> MethodClouds:
    """The clouds, in the type that was sent or a wider one."""
    lengths, counts = request.lengths, request.sample_counts
    points, is_grid = _widened(request.points), isinstance(method, VoxelGrid)
    needed = None
    if request.ignore_nonfinite:
        needed = np.ones(1, np.int64) if is_grid else counts
    check_finite(points, lengths, needed, request.points.field)
    if isinstance(method, VoxelGrid):
        check_grid(points, method)
    return MethodClouds(points, lengths, _broadcast(counts, len(lengths)), method)


def _broadcast(values: Int64s, clouds: int) -> Int64s:
    """One value for each cloud."""
    return values if len(values) == clouds else np.broadcast_to(values, clouds)


def to_float32(
    points: TensorView | PackedView, lengths: Int64s
) -> tuple[Float32s, Float64s | None]:
    """The clouds of a request in float32, finite or not, and the origin subtracted from each.

    float32 is used as it is, without a copy; halves are widened, which is exact; float64 is
    shifted in float64 to the first finite point of each cloud before it is narrowed. Features
    behind three coordinates are not shifted.

    Returns:
        Points (P, 3 + C), and origins (B, 3 + C) for float64 or None.
    """
    widened = _widened(points)
    return _shift(widened, lengths) if widened.dtype == np.float64 else (widened, None)


def _widened(points: TensorView | PackedView) -> npt.NDArray[Any]:
    """Shape (P, 3): float64 as it is, everything else in float32."""
    if isinstance(points, PackedView):
        return points.array()
    if not points.is_aligned:
        points = points.owned()
    raw = np.frombuffer(points.data, ELEMENT_TYPES[points.data_type]).reshape(points.shape)
    if points.data_type == tensor_pb2.DATA_TYPE_FLOAT64:
        return raw.astype(np.float64, copy=False)
    if points.data_type == tensor_pb2.DATA_TYPE_FLOAT16:
        return _HALVES.take(raw.view("<u2"))
    if points.data_type == tensor_pb2.DATA_TYPE_BFLOAT16:
        return widened(raw, points.data_type)
    return raw.astype(np.float32, copy=False)


def _shift(points: Float64s, lengths: Int64s) -> tuple[Float32s, Float64s]:
    narrowed = np.empty(points.shape, np.float32)
    origins = _origins(points, lengths)
    # A coordinate beyond float32 becomes infinite here.
    with np.errstate(over="ignore", invalid="ignore"):
        # By column: numpy takes twice as long along rows of three.
        for axis in range(points.shape[1]):
            np.subtract(
                points[:, axis],
                origins[0, axis] if len(lengths) == 1 else origins[:, axis].repeat(lengths),
                out=narrowed[:, axis],
                casting="same_kind",
            )
    return narrowed, origins


def _origins(points: Float64s, lengths: Int64s) -> Float64s:
    """The first finite row of each cloud, shape (B, 3 + C); zeros if there is none, and for C."""
    stops = lengths.cumsum()
    starts = stops - lengths
    origins = points[starts]
    for cloud in np.flatnonzero(~np.isfinite(origins).all(axis=1)):
        rows = points[starts[cloud] : stops[cloud]]
        finite = np.isfinite(rows).all(axis=1)
        origins[cloud] = rows[finite.argmax()] if finite.any() else 0
    origins[:, 3:] = 0
    return origins


def check_finite(
    points: npt.NDArray[Any],
    lengths: Int64s,
    needed: Int64s | None = None,
    field: str = "points",
    expected: str = "finite coordinates (nonfinite_policy IGNORE samples around others)",
) -> None:
    """Raises InvalidRequestError for rows that are not finite.

    Args:
        points: Shape (P, 3).
        lengths: Shape (B,): points of each cloud.
        needed: Shape (B,), or (1,) for all clouds: finite rows that a cloud must have; None if
            all rows must be finite.
        field: Path of the points in the request.
        expected: What all rows must be.
    """
    if np.isfinite(points).all():
        return
    finite = np.asarray(np.isfinite(points).all(axis=1))
    if needed is None:
        raise _nonfinite(points, finite, lengths, expected, field)
    available = np.add.reduceat(finite, lengths.cumsum() - lengths, dtype=np.int64)
    check_range(
        needed, 1, available, "sample_counts", "the points of cloud {} that are finite in float32"
    )


def check_values(values: npt.NDArray[Any], field: str) -> None:
    """Raises InvalidRequestError for rows that are not finite, of values other than coordinates."""
    finite = np.isfinite(values.reshape(len(values), -1)).all(axis=1)
    if not finite.all():
        rows = f"{len(finite) - int(finite.sum())} rows, the first at row {int(finite.argmin())}"
        got = f"NaN, infinity or values beyond {values.dtype} in {rows}"
        raise InvalidRequestError(f"{field}.data", "finite numbers", got)


def _nonfinite(
    points: npt.NDArray[Any],
    finite: npt.NDArray[np.bool_],
    lengths: Int64s,
    expected: str,
    field: str,
) -> InvalidRequestError:
    """The error of the first row that is not `finite`."""
    row = int(finite.argmin())
    stops = lengths.cumsum()
    cloud = int(np.searchsorted(stops, row, side="right"))
    values = ", ".join(str(value) for value in points[row])
    return InvalidRequestError(
        f"{field}.data",
        expected,
        f"{len(finite) - int(finite.sum())} rows with NaN, infinity or values beyond "
        f"{points.dtype}, the first at row "
        f"{row - int(stops[cloud] - lengths[cloud])} of cloud {cloud}: ({values})",
    )
