"""Zero-copy protobuf parsing and serialization for messages that hold large tensors.

A protobuf parser copies every bytes field out of a message, and a reader copies it again. Here the
data of tensors is cut out of the received bytes as views, and what is left, some hundred bytes,
goes through protobuf. A response is put together from its chunks in one copy. Both follow
https://protobuf.dev/programming-guides/encoding; whatever is unusual is left to protobuf.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
from google.protobuf.message import DecodeError

from farpoint.v1 import sampling_pb2, tensor_pb2
from farpoint_server.errors import InvalidRequestError

T = TypeVar("T")
DataType: TypeAlias = "tensor_pb2.DataType.ValueType"

Buffer: TypeAlias = bytes | memoryview
"""Bytes: what is a view has one dimension and elements of one byte."""
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
# Below this size a copy costs less than the search for it.
SPLIT_BYTES = 1 << 14
MAX_FIELDS = 64

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FIXED_SIZES = {_FIXED64: 8, _FIXED32: 4}
_POINTS = sampling_pb2.SampleRequest.POINTS_FIELD_NUMBER
_DATA = tensor_pb2.Tensor.DATA_FIELD_NUMBER


class _UnusualError(Exception):
    """Something that our own senders never write; protobuf says what it means, if anything."""


class SampleMessage(NamedTuple):
    """A SampleRequest as it arrived."""

    request: sampling_pb2.SampleRequest
    """Without `points.data`, if `points_data` is given."""
    points_data: Buffer | None
    size: int
    """Of the whole message in bytes."""


def parse(read: Callable[[bytes], T], raw: bytes) -> T:
    """What `read` makes of a serialized message.

    Args:
        read: `FromString` of a message, or one of the functions below.
        raw: The message as it arrived.

    Raises:
        InvalidRequestError: it is none.
    """
    try:
        return read(raw)
    except DecodeError as error:
        got = f"{len(raw)} other bytes"
        raise InvalidRequestError("request", "a serialized message", got) from error


def read_sample_message(raw: bytes | memoryview) -> SampleMessage:
    """Parses a serialized SampleRequest.

    Raises:
        google.protobuf.message.DecodeError: it is none.
    """
    try:
        if len(raw) < SPLIT_BYTES:
            raise _UnusualError
        return _split(memoryview(raw))
    except _UnusualError:
        request = sampling_pb2.SampleRequest.FromString(bytes(raw))
        return SampleMessage(request, None, len(raw))


def _split(raw: memoryview) -> SampleMessage:
    around, points = _cut(raw, _POINTS)
    tensor, data = _cut(points, _DATA)
    head = b"".join((around, length_delimited(_POINTS, [tensor])[0], tensor))
    return SampleMessage(sampling_pb2.SampleRequest.FromString(head), data, len(raw))


def _cut(message: memoryview, number: int) -> tuple[bytes, memoryview]:
    """A message without its only field of a number, which holds bytes, and these bytes."""
    found: tuple[int, int, int] | None = None
    for field, begin, inside, end in _fields(message):
        if field != number:
            continue
        if found is not None or inside == begin:
            raise _UnusualError
        found = begin, inside, end
    if found is None:
        raise _UnusualError
    begin, inside, end = found
    return b"".join((message[:begin], message[end:])), message[inside:end]


def _fields(message: memoryview) -> Iterator[tuple[int, int, int, int]]:
    """Number, first byte, first byte inside (the first byte again if not bytes) and end of each."""
    at = 0
    for _ in range(MAX_FIELDS):
        if at == len(message):
            return
        begin = at
        tag, at = _varint(message, at)
        kind = tag & 7
        inside = begin
        if kind == _VARINT:
            _, at = _varint(message, at)
        elif kind == _BYTES:
            size, inside = _varint(message, at)
            at = inside + size
        elif kind in _FIXED_SIZES:
            at += _FIXED_SIZES[kind]
        else:
            raise _UnusualError
        if tag < 8 or at > len(message):
            raise _UnusualError
        yield tag >> 3, begin, inside, at
    raise _UnusualError


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 35, 7):
        if at == len(message):
            break
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise _UnusualError


def length_delimited(number: int, chunks: Sequence[Buffer]) -> list[Buffer]:
    """A field that holds bytes or a message, as chunks: its head, then its content."""
    return [_nested_head(number, sum(map(len, chunks))), *chunks]


# A caller's clouds are often of one size, and so is all that is said of sizes.
@lru_cache(1024)
def _nested_head(number: int, size: int) -> bytes:
    return _packed_varint(number << 3 | _BYTES) + _packed_varint(size)


def _packed_varint(value: int) -> bytes:
    packed = bytearray()
    while value >= 0x80:
        packed.append(value & 0x7F | 0x80)
        value >>= 7
    packed.append(value)
    return bytes(packed)


def serialize_tensor(array: npt.NDArray[Any], data_type: DataType) -> list[Buffer]:
    """The Tensor of an array as chunks, converted to `data_type` where it differs."""
    little = np.ascontiguousarray(array, ELEMENT_TYPES[data_type])
    return tensor_chunks(data_type, array.shape, little.reshape(-1).view(np.uint8).data)


def tensor_chunks(data_type: int, shape: Sequence[int], data: Buffer) -> list[Buffer]:
    """The Tensor of elements that are bytes already, as chunks; `data` is not copied."""
    return [_tensor_head(data_type, tuple(shape)), _nested_head(_DATA, len(data)), data]


@lru_cache(1024)
def _tensor_head(data_type: int, shape: tuple[int, ...]) -> bytes:
    head = tensor_pb2.Tensor(shape=shape)
    head.data_type = data_type  # type: ignore[assignment]
    return head.SerializeToString()


def read_upload_data(raw: bytes) -> Buffer | None:
    """The data in a serialized SampleLargeRequest; None if it holds something else.

    Raises:
        google.protobuf.message.DecodeError: it is no such message.
    """
    try:
        rest, data = _cut(memoryview(raw), sampling_pb2.SampleLargeRequest.POINTS_DATA_FIELD_NUMBER)
        if not rest:
            return data
    except _UnusualError:
        pass
    message = sampling_pb2.SampleLargeRequest.FromString(raw)
    return message.points_data if message.HasField("points_data") else None


def read_stream_message(raw: bytes) -> tuple[SampleMessage, int]:
    """The request in a serialized SampleStreamRequest, and its mode.

    Raises:
        google.protobuf.message.DecodeError: it is no such message.
    """
    kind = sampling_pb2.SampleStreamRequest
    try:
        if len(raw) < SPLIT_BYTES:
            raise _UnusualError
        rest, request = _cut(memoryview(raw), kind.REQUEST_FIELD_NUMBER)
        return read_sample_message(request), kind.FromString(rest).mode
    except _UnusualError:
        message = kind.FromString(raw)
        return SampleMessage(message.request, None, len(raw)), message.mode
