"""Points of a SampleRequest, a Tensor or a PackedCloud: parsed, and counted before an upload."""

from farpoint.v1 import sampling_pb2, tensor_pb2
from farpoint_server.codec.fields import Buffer
from farpoint_server.codec.packed import PackedView, parse_packed
from farpoint_server.codec.packed_layout import PACKED, parse_layout
from farpoint_server.codec.shared_memory import Regions
from farpoint_server.codec.tensors import (
    POINT_TYPES,
    TensorView,
    data_bytes,
    enum_name,
    parse_tensor,
)
from farpoint_server.codec.validation import MAX_DIMENSIONS, RequestLimits
from farpoint_server.errors import InvalidRequestError


def points_field(request: sampling_pb2.SampleRequest) -> str:
    """Name of the field with the clouds."""
    return PACKED if request.HasField("packed_cloud") else "points"


def parse_points(
    request: sampling_pb2.SampleRequest,
    data: Buffer | None,
    limits: RequestLimits,
    regions: Regions | None,
) -> TensorView | PackedView:
    """The points of a request, whose coordinates are still to be looked at.

    Args:
        request: As it was sent.
        data: Of its points, if that was cut out.
        limits: How many there may be at most.
        regions: Where their data may be instead; None if it may not.

    Raises:
        InvalidRequestError: their description is wrong, or does not fit the data.
    """
    if request.HasField("packed_cloud"):
        if request.HasField("points"):
            raise InvalidRequestError(PACKED, "nothing beside points", "both")
        return parse_packed(request.packed_cloud, limits, data, regions)
    check_points(request.points, limits)
    return parse_tensor(request.points, "points", data, regions)


def upload_size(
    request: sampling_pb2.SampleRequest, limits: RequestLimits, max_bytes: int
) -> tuple[int, int]:
    """Points of a request without their data, and the bytes that are to come.

    Raises:
        InvalidRequestError: they could never be accepted, or the request holds data already.
    """
    name = points_field(request)
    if held := len(getattr(request, name).data):
        expected = "none: points_data has it"
        raise InvalidRequestError(f"request.{name}.data", expected, f"{held} bytes")
    if request.HasField("packed_cloud"):
        layout = parse_layout(request.packed_cloud, limits)
        points, size = layout.points, layout.size
    else:
        check_points(request.points, limits)
        points, size = request.points.shape[0], data_bytes(request.points, "points")
    if size > max_bytes:
        field = name if name == PACKED else "points.shape"
        raise InvalidRequestError(field, f"at most {max_bytes} bytes of points", size)
    return points, size


def check_points(points: tensor_pb2.Tensor, limits: RequestLimits) -> None:
    """Checks the type and the shape of the points; raises InvalidRequestError."""
    if points.data_type not in POINT_TYPES:
        names = ", ".join(enum_name(tensor_pb2.DataType, t) for t in POINT_TYPES)
        got = enum_name(tensor_pb2.DataType, points.data_type)
        raise InvalidRequestError("points.data_type", f"one of {names}", got)
    shape = points.shape
    if len(shape) != 2 or shape[1] != 3:
        raise InvalidRequestError("points.shape", "(P, 3)", tuple(shape[:MAX_DIMENSIONS]))
    if not 1 <= shape[0] <= limits.points:
        raise InvalidRequestError("points.shape", f"1 to {limits.points} points", tuple(shape))
