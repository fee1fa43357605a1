"""Zero-copy protobuf parsing and serialization for messages that hold large tensors.

A protobuf parser copies every bytes field out of a message, and a reader copies it again. Here the
data of tensors is cut out of the received bytes as views, and what is left, some hundred bytes,
goes through protobuf. A response is put together from its chunks in one copy. Whatever is unusual
is left to protobuf. What goes through it is small, or it was seen before to have few parts.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
from google.protobuf.message import DecodeError, Message

from farpoint.v1 import packed_cloud_pb2, sampling_pb2, tensor_pb2
from farpoint_server.codec.checksum import checksum_field
from farpoint_server.codec.fields import (
    Buffer,
    UnusualError,
    cut,
    cut_any,
    length_delimited,
    nested_head,
)
from farpoint_server.codec.parts import Bounds, check_parts, sample_bounds, stream_bounds
from farpoint_server.errors import InvalidRequestError

T = TypeVar("T")
M = TypeVar("M", bound=Message)
DataType: TypeAlias = "tensor_pb2.DataType.ValueType"

# Little-endian on every host. bfloat16, which numpy has not, is held as its bits.
ELEMENT_TYPES: dict[int, np.dtype[Any]] = {
    tensor_pb2.DATA_TYPE_FLOAT32: np.dtype("<f4"),
    tensor_pb2.DATA_TYPE_FLOAT64: np.dtype("<f8"),
    tensor_pb2.DATA_TYPE_FLOAT16: np.dtype("<f2"),
    tensor_pb2.DATA_TYPE_BFLOAT16: np.dtype("<u2"),
    tensor_pb2.DATA_TYPE_INT8: np.dtype("<i1"),
    tensor_pb2.DATA_TYPE_INT16: np.dtype("<i2"),
    tensor_pb2.DATA_TYPE_INT32: np.dtype("<i4"),
    tensor_pb2.DATA_TYPE_INT64: np.dtype("<i8"),
    tensor_pb2.DATA_TYPE_UINT8: np.dtype("<u1"),
    tensor_pb2.DATA_TYPE_UINT16: np.dtype("<u2"),
    tensor_pb2.DATA_TYPE_UINT32: np.dtype("<u4"),
    tensor_pb2.DATA_TYPE_UINT64: np.dtype("<u8"),
    tensor_pb2.DATA_TYPE_BOOL: np.dtype("?"),
}
# Below this size a copy costs less than the search for it, and too few parts fit to do harm.
SPLIT_BYTES = 1 << 14

_POINTS = sampling_pb2.SampleRequest.POINTS_FIELD_NUMBER
_DATA = tensor_pb2.Tensor.DATA_FIELD_NUMBER
_PACKED = sampling_pb2.SampleRequest.PACKED_CLOUD_FIELD_NUMBER
_PACKED_DATA = packed_cloud_pb2.PackedCloud.DATA_FIELD_NUMBER


class SampleMessage(NamedTuple):
    """A SampleRequest as it arrived."""

    request: sampling_pb2.SampleRequest
    """Without the data of `points` or of `packed_cloud`, if `points_data` is given."""
    points_data: Buffer | None
    size: int
    """Of the whole message in bytes."""


def parse(read: Callable[..., T], raw: bytes, *options: Any) -> T:
    """What `read` makes of a serialized message.

    Args:
        read: One of the functions below.
        raw: The message as it arrived.
        options: What else `read` wants.

    Raises:
        InvalidRequestError: it is none, or one of too many parts.
    """
    try:
        return read(raw, *options)
    except DecodeError as error:
        got = f"{len(raw)} other bytes"
        raise InvalidRequestError("request", "a serialized message", got) from error


def read_message(raw: Buffer, kind: type[M], bounds: Bounds) -> M:
    """Parses a serialized message whose parts are bounded.

    Raises:
        InvalidRequestError: it has more parts than `bounds` say.
        google.protobuf.message.DecodeError: it is none.
    """
    if len(raw) >= SPLIT_BYTES:
        check_parts(memoryview(raw), bounds)
    return kind.FromString(bytes(raw))


def read_sample_message(raw: Buffer, clouds: int) -> SampleMessage:
    """Parses a serialized SampleRequest of at most so many clouds.

    Raises:
        InvalidRequestError: it has more parts than such a request can have.
        google.protobuf.message.DecodeError: it is none.
    """
    kind, bounds = sampling_pb2.SampleRequest, sample_bounds(clouds)
    if len(raw) >= SPLIT_BYTES:
        try:
            head, data = _split(memoryview(raw))
            return SampleMessage(read_message(head, kind, bounds), data, len(raw))
        except UnusualError:
            pass
    return SampleMessage(read_message(raw, kind, bounds), None, len(raw))


def _split(raw: memoryview) -> tuple[bytes, memoryview]:
    """A SampleRequest without the data of its points, and that data."""
    number, around, points = cut_any(raw, (_POINTS, _PACKED))
    rest, data = cut(points, _DATA if number == _POINTS else _PACKED_DATA)
    return b"".join((around, length_delimited(number, [rest])[0], rest)), data


def serialize_tensor(
    array: npt.NDArray[Any], data_type: DataType, checksum: bool = False
) -> list[Buffer]:
    """The Tensor of an array as chunks, converted to `data_type` where it differs."""
    little = np.ascontiguousarray(array, ELEMENT_TYPES[data_type])
    return tensor_chunks(data_type, array.shape, little.reshape(-1).view(np.uint8).data, checksum)


def tensor_chunks(
    data_type: int, shape: Sequence[int], data: Buffer, checksum: bool = False
) -> list[Buffer]:
    """The Tensor of elements that are bytes already, as chunks; `data` is not copied."""
    chunks = [_tensor_head(data_type, tuple(shape)), nested_head(_DATA, len(data)), data]
    if checksum:
        chunks.append(checksum_field(data_type, shape, data))
    return chunks


@lru_cache(1024)
def _tensor_head(data_type: int, shape: tuple[int, ...]) -> bytes:
    head = tensor_pb2.Tensor(shape=shape)
    head.data_type = data_type  # type: ignore[assignment]
    return head.SerializeToString()


def read_upload_data(raw: bytes, clouds: int) -> Buffer | None:
    """The data in a serialized SampleLargeRequest; None if it holds something else.

    Raises:
        InvalidRequestError: it has more parts than such a message can have.
        google.protobuf.message.DecodeError: it is no such message.
    """
    try:
        rest, data = cut(memoryview(raw), sampling_pb2.SampleLargeRequest.POINTS_DATA_FIELD_NUMBER)
        if not rest:
            return data
    except UnusualError:
        pass
    message = read_message(raw, sampling_pb2.SampleLargeRequest, stream_bounds(clouds))
    return message.points_data if message.HasField("points_data") else None


def read_stream_message(raw: bytes, clouds: int) -> tuple[SampleMessage, int]:
    """The request in a serialized SampleStreamRequest, and its mode.

    Raises:
        InvalidRequestError: it has more parts than such a message can have.
        google.protobuf.message.DecodeError: it is no such message.
    """
    kind, bounds = sampling_pb2.SampleStreamRequest, stream_bounds(clouds)
    if len(raw) >= SPLIT_BYTES:
        try:
            rest, request = cut(memoryview(raw), kind.REQUEST_FIELD_NUMBER)
            return read_sample_message(request, clouds), read_message(rest, kind, bounds).mode
        except UnusualError:
            pass
    message = read_message(raw, kind, bounds)
    return SampleMessage(message.request, None, len(raw)), message.mode
