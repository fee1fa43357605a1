"""Protobuf wire format: fields walked, cut out and written; tensors without a copy of their data.

A protobuf parser copies every bytes field out of a message, and a reader copies it again. Here the
data of tensors is cut out of the received bytes as views, and what is left, some hundred bytes,
goes through protobuf. A response is put together from its chunks in one copy. Whatever is unusual
is left to protobuf. The format is https://protobuf.dev/programming-guides/encoding.
"""

import struct
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any, TypeAlias, TypeVar

import google_crc32c
import numpy as np
import numpy.typing as npt
from google.protobuf.message import DecodeError, Message

from farpoint.v1 import tensor_pb2
from farpoint_server.codec.dtypes import ELEMENT_TYPES, DataType
from farpoint_server.errors import InvalidRequestError

M = TypeVar("M", bound=Message)
Buffer: TypeAlias = bytes | memoryview
"""Bytes; a view has one dimension and elements of one byte."""
VARINT, FIXED64, BYTES, START_GROUP, END_GROUP, FIXED32 = range(6)
FIXED_SIZES = {FIXED64: 8, FIXED32: 4}
MAX_FIELDS = 64

# Below this size copying costs less than cutting, and too few fields fit to do harm.
SPLIT_BYTES = 1 << 14

_DATA = tensor_pb2.Tensor.DATA_FIELD_NUMBER
_CHECKSUM = struct.Struct("<BI")
_CHECKSUM_TAG = tensor_pb2.Tensor.CRC32C_FIELD_NUMBER << 3 | FIXED32


class UnusualError(Exception):
    """An encoding that our own senders never write; protobuf decides its meaning."""


def cut(message: memoryview, number: int) -> tuple[bytes, memoryview]:
    """A message without its only field of this number, and the bytes of that field.

    Raises:
        UnusualError: the field is there more than once or not at all, or the message is odd.
    """
    _, around, inside = cut_any(message, (number,))
    return around, inside


def cut_any(message: memoryview, numbers: Sequence[int]) -> tuple[int, bytes, memoryview]:
    """As `cut` for the only field of several numbers; its number comes first."""
    found: tuple[int, int, int, int] | None = None
    for field, begin, inside, end in walk(message):
        if field not in numbers:
            continue
        if found is not None or inside == begin:
            raise UnusualError
        found = field, begin, inside, end
    if found is None:
        raise UnusualError
    field, begin, inside, end = found
    return field, b"".join((message[:begin], message[end:])), message[inside:end]


def walk(message: memoryview) -> Iterator[tuple[int, int, int, int]]:
    """Number, first byte, first byte inside (the first byte again if not bytes) and end of each.

    Raises:
        UnusualError: there are more than MAX_FIELDS, or they are none that our senders write.
    """
    at = 0
    for _ in range(MAX_FIELDS):
        if at == len(message):
            return
        begin = at
        tag, at = read_varint(message, at)
        kind = tag & 7
        inside = begin
        if kind == VARINT:
            _, at = read_varint(message, at)
        elif kind == BYTES:
            size, inside = read_varint(message, at)
            at = inside + size
        elif kind in FIXED_SIZES:
            at += FIXED_SIZES[kind]
        else:
            raise UnusualError
        if tag < 8 or at > len(message):
            raise UnusualError
        yield tag >> 3, begin, inside, at
    raise UnusualError


def read_varint(message: memoryview, at: int, bits: int = 35) -> tuple[int, int]:
    """The varint at a place, of at most `bits`, and the place after it; raises UnusualError."""
    value = 0
    for shift in range(0, bits, 7):
        if at == len(message):
            break
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise UnusualError


def length_delimited(number: int, chunks: Sequence[Buffer]) -> list[Buffer]:
    """A field that holds bytes or a message, as chunks: its head, then its content."""
    return [nested_head(number, sum(map(len, chunks))), *chunks]


# Cached: a caller's clouds often have one size.
@lru_cache(1024)
def nested_head(number: int, size: int) -> bytes:
    """The tag and the size of a field that holds bytes or a message."""
    return packed_varint(number << 3 | BYTES) + packed_varint(size)


def packed_varint(value: int) -> bytes:
    """A number as a varint."""
    packed = bytearray()
    while value >= 0x80:
        packed.append(value & 0x7F | 0x80)
        value >>= 7
    packed.append(value)
    return bytes(packed)


def read_message(raw: Buffer, kind: type[M], check: Callable[[memoryview], object]) -> M:
    """Parses a serialized message."""
    try:
        if len(raw) >= SPLIT_BYTES:
            check(memoryview(raw))
        return kind.FromString(bytes(raw))
    except DecodeError as error:
        got = f"{len(raw)} other bytes"
        raise InvalidRequestError("request", "a serialized message", got) from error


def serialize_tensor(
    array: npt.NDArray[Any], data_type: DataType, checksum: bool = False
) -> list[Buffer]:
    """The Tensor of an array as chunks, converted to `data_type` where it differs."""
    little = np.ascontiguousarray(array, ELEMENT_TYPES[data_type])
    return tensor_chunks(data_type, array.shape, little.reshape(-1).view(np.uint8).data, checksum)


def tensor_chunks(
    data_type: int, shape: Sequence[int], data: Buffer, checksum: bool = False
) -> list[Buffer]:
    """The Tensor of elements given as bytes, as chunks; `data` is not copied."""
    chunks = [_tensor_head(data_type, tuple(shape)), nested_head(_DATA, len(data)), data]
    if checksum:
        chunks.append(_CHECKSUM.pack(_CHECKSUM_TAG, tensor_crc(data_type, shape, data)))
    return chunks


@lru_cache(1024)
def _tensor_head(data_type: int, shape: tuple[int, ...]) -> bytes:
    head = tensor_pb2.Tensor(shape=shape)
    head.data_type = data_type  # type: ignore[assignment]
    return head.SerializeToString()


def tensor_crc(data_type: int, shape: Sequence[int], data: Buffer) -> int:
    """The CRC-32C of a tensor's type, shape and data, for Tensor.crc32c."""
    # google_crc32c takes arrays, not memoryviews.
    elements = np.frombuffer(data, np.uint8) if len(data) else b""
    return int(google_crc32c.extend(_head_crc(data_type, tuple(shape)), elements))


@lru_cache(1024)
def _head_crc(data_type: int, shape: tuple[int, ...]) -> int:
    head = struct.pack(f"<{1 + len(shape)}q", data_type, *shape)
    return int(google_crc32c.value(head))
