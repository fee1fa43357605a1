"""SampleRequest messages, alone and in streams: parsed, and validated without their coordinates."""

from collections.abc import Sequence
from typing import NamedTuple

from farpoint.v1 import packed_cloud_pb2, sampling_pb2, tensor_pb2
from farpoint_server.codec import wire
from farpoint_server.codec.method import read_method
from farpoint_server.codec.packed import PACKED, PackedView, parse_layout, parse_packed
from farpoint_server.codec.shared_memory import Regions
from farpoint_server.codec.tensors import (
    MAX_ATTRIBUTES,
    MAX_DIMENSIONS,
    MAX_NAME,
    RequestLimits,
    TensorView,
    check_message_size,
    check_points,
    parse_head,
    parse_tensor,
    read_covering_radius,
    read_lengths,
    read_sample_counts,
    read_starts,
)
from farpoint_server.codec.wire import (
    Buffer,
    UnusualError,
    cut,
    cut_any,
    length_delimited,
    read_message,
)
from farpoint_server.codec.wire_limits import limits_of
from farpoint_server.compute.arrays import Int64s
from farpoint_server.errors import InvalidRequestError, quoted
from farpoint_server.kinds.method import Method, VoxelGrid

_POINTS = sampling_pb2.SampleRequest.POINTS_FIELD_NUMBER
_PACKED = sampling_pb2.SampleRequest.PACKED_CLOUD_FIELD_NUMBER
_DATA = tensor_pb2.Tensor.DATA_FIELD_NUMBER
_PACKED_DATA = packed_cloud_pb2.PackedCloud.DATA_FIELD_NUMBER
# Cached: protobuf's enum wrapper builds them at each call.
_ENUMS: dict[str, dict[int, str]] = {
    "method": {number: name for name, number in sampling_pb2.SamplingMethod.items()},
    "nonfinite_policy": {number: name for name, number in sampling_pb2.NonfinitePolicy.items()},
}


class SampleMessage(NamedTuple):
    """A SampleRequest as it arrived."""

    request: sampling_pb2.SampleRequest
    """Without the data of `points` or of `packed_cloud`, if `points_data` is given."""
    points_data: Buffer | None
    size: int
    """Of the whole message in bytes."""


class ParsedSampleRequest(NamedTuple):
    """A request with valid sizes and numbers, whose coordinates are not validated yet."""

    points: TensorView | PackedView
    """Shape (P, 3), of one of POINT_TYPES or with fields that become one."""
    attributes: tuple[tuple[str, TensorView], ...]
    """Name and values, shape (P, ...)."""
    lengths: Int64s
    """Shape (B,); adds up to P."""
    sample_counts: Int64s
    """Shape (B,), or (1,) for all clouds; 1 to N of each; of a voxel grid an upper bound."""
    starts: Int64s
    """Shape (B,), or (1,) for all clouds; 0 to N-1 of each."""
    ignore_nonfinite: bool
    return_points: bool
    return_distances: bool
    return_checksums: bool = False
    covering_radius: float | None = None
    """Stop criterion of each cloud; None for its number of samples alone."""
    method: Method | None = None
    """None for the farthest points."""

    message_bytes: int = 0
    """Bytes of the message, which stays in memory until it is answered."""
    shared_bytes: int = 0
    """Bytes of its tensors that are still to be copied from the caller's memory."""


def read_sample_message(raw: Buffer, clouds: int) -> SampleMessage:
    """Parses a serialized SampleRequest of at most so many clouds; raises InvalidRequestError."""
    kind = sampling_pb2.SampleRequest
    check = limits_of(kind, clouds)
    if len(raw) >= wire.SPLIT_BYTES:
        try:
            head, data = _split(memoryview(raw))
            return SampleMessage(read_message(head, kind, check), data, len(raw))
        except UnusualError:
            pass
    return SampleMessage(read_message(raw, kind, check), None, len(raw))


def _split(raw: memoryview) -> tuple[bytes, memoryview]:
    """A SampleRequest without the data of its points, and that data."""
    number, around, points = cut_any(raw, (_POINTS, _PACKED))
    rest, data = cut(points, _DATA if number == _POINTS else _PACKED_DATA)
    return b"".join((around, length_delimited(number, [rest])[0], rest)), data


def parse_sample_request(
    message: SampleMessage, limits: RequestLimits, regions: Regions | None = None
) -> ParsedSampleRequest:
    """Validates everything except coordinates."""
    request = message.request
    _check_enums(request)
    points = _parse_points(request, message.points_data, limits, regions)
    check_message_size(message.size, limits)
    lengths = read_lengths(request.lengths, points.shape[0], limits)
    radius, method = read_covering_radius(request), read_method(request, lengths)
    counts = lengths
    if request.sample_counts or (radius is None and type(method) is not VoxelGrid):
        counts = read_sample_counts(request.sample_counts, lengths)
    attributes: tuple[tuple[str, TensorView], ...] = ()
    shared_bytes = len(points.data) if points.is_shared else 0
    if request.attributes:
        attributes = _parse_attributes(request.attributes, points.shape[0], regions)
        shared_bytes += sum(len(values.data) for _, values in attributes if values.is_shared)
    return ParsedSampleRequest(
        points=points,
        attributes=attributes,
        lengths=lengths,
        sample_counts=counts,
        starts=read_starts(request.start_indices, lengths),
        ignore_nonfinite=request.nonfinite_policy == sampling_pb2.NONFINITE_POLICY_IGNORE,
        return_points=request.return_points,
        return_distances=request.return_distances,
        return_checksums=request.return_checksums,
        covering_radius=radius,
        method=method,
        message_bytes=message.size,
        shared_bytes=shared_bytes,
    )


def points_field(request: sampling_pb2.SampleRequest) -> str:
    """Name of the field with the clouds."""
    return PACKED if request.HasField("packed_cloud") else "points"


def _parse_points(
    request: sampling_pb2.SampleRequest,
    data: Buffer | None,
    limits: RequestLimits,
    regions: Regions | None,
) -> TensorView | PackedView:
    """The points of a request, with coordinates that are not validated yet."""
    if request.HasField("packed_cloud"):
        if request.HasField("points"):
            raise InvalidRequestError(PACKED, "nothing but points", "both")
        return parse_packed(request.packed_cloud, limits, data, regions)
    check_points(request.points, limits)
    return parse_tensor(request.points, "points", data, regions)


def _check_enums(request: sampling_pb2.SampleRequest) -> None:
    for field, names in _ENUMS.items():
        value = getattr(request, field)
        if value not in names:
            raise InvalidRequestError(field, f"one of {', '.join(names.values())}", value)


def _parse_attributes(
    attributes: Sequence[tensor_pb2.Attribute], points: int, regions: Regions | None
) -> tuple[tuple[str, TensorView], ...]:
    if len(attributes) > MAX_ATTRIBUTES:
        raise InvalidRequestError("attributes", f"at most {MAX_ATTRIBUTES}", len(attributes))
    views: dict[str, TensorView] = {}
    for i, attribute in enumerate(attributes):
        if not attribute.name or attribute.name in views:
            expected = "a name that no other attribute has"
            raise InvalidRequestError(f"attributes[{i}].name", expected, quoted(attribute.name))
        if len(attribute.name) > MAX_NAME:
            expected = f"at most {MAX_NAME} characters"
            raise InvalidRequestError(f"attributes[{i}].name", expected, len(attribute.name))
        shape = tuple(attribute.values.shape[:MAX_DIMENSIONS])
        if not shape or shape[0] != points:
            raise InvalidRequestError(f"attributes[{i}].values.shape", f"({points}, ...)", shape)
        field = f"attributes[{i}].values"
        views[attribute.name] = parse_tensor(attribute.values, field, regions=regions)
    return tuple(views.items())


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
    """Number of points of a request without their data, and the bytes of the data to come."""
    name = points_field(request)
    if held := len(getattr(request, name).data):
        expected = "none: points_data has it"
        raise InvalidRequestError(f"request.{name}.data", expected, f"{held} bytes")
    if request.HasField("packed_cloud"):
        layout = parse_layout(request.packed_cloud, limits)
        points, size = layout.points, layout.size
    else:
        check_points(request.points, limits)
        points, size = request.points.shape[0], parse_head(request.points, "points")[2]
    if size > max_bytes:
        field = name if name == PACKED else "points.shape"
        raise InvalidRequestError(field, f"at most {max_bytes} bytes of points", size)
    return points, size
