"""Messages of the streaming RPCs: SampleStreamRequest and SampleLargeRequest, without copies."""

from farpoint.v1 import sampling_pb2
from farpoint_server.codec import wire
from farpoint_server.codec.packed_layout import PACKED, parse_layout
from farpoint_server.codec.sample_request import SampleMessage, points_field, read_sample_message
from farpoint_server.codec.tensors import RequestLimits, check_points, data_bytes
from farpoint_server.codec.wire import Buffer, UnusualError, cut, read_message
from farpoint_server.codec.wire_limits import limits_of
from farpoint_server.errors import InvalidRequestError


def read_upload_data(raw: bytes, clouds: int) -> Buffer | None:
    """The data in a serialized SampleLargeRequest; None if it holds something else."""
    try:
        rest, data = cut(memoryview(raw), sampling_pb2.SampleLargeRequest.POINTS_DATA_FIELD_NUMBER)
        if not rest:
            return data
    except UnusualError:
        pass
    kind = sampling_pb2.SampleLargeRequest
    message = read_message(raw, kind, limits_of(kind, clouds))
    return message.points_data if message.HasField("points_data") else None


def read_stream_message(raw: bytes, clouds: int) -> tuple[SampleMessage, int]:
    """The request in a serialized SampleStreamRequest, and its mode; raises InvalidRequestError."""
    kind = sampling_pb2.SampleStreamRequest
    check = limits_of(kind, clouds)
    if len(raw) >= wire.SPLIT_BYTES:
        try:
            rest, request = cut(memoryview(raw), kind.REQUEST_FIELD_NUMBER)
            return read_sample_message(request, clouds), read_message(rest, kind, check).mode
        except UnusualError:
            pass
    message = read_message(raw, kind, check)
    return SampleMessage(message.request, None, len(raw)), message.mode


def upload_size(
    request: sampling_pb2.SampleRequest, limits: RequestLimits, max_bytes: int
) -> tuple[int, int]:
    """Points of a request without their data, and the bytes that are to come."""
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
