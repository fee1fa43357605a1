"""Bounds on the repeated fields of a serialized message, checked before protobuf parses it.

A repeated field costs two bytes on the wire and hundreds in memory, so the limit on the bytes of a
message bounds neither the memory nor the time of its parsing. One walk over its fields does.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import NamedTuple, TypeAlias

from google.protobuf.message import DecodeError

from farpoint.v1 import packed_cloud_pb2, sampling_pb2, tensor_pb2
from farpoint_server.codec.validation import MAX_ATTRIBUTES, MAX_DIMENSIONS, MAX_PACKED_FIELDS
from farpoint_server.codec.wire import (
    BYTES,
    END_GROUP,
    FIXED_SIZES,
    START_GROUP,
    VARINT,
    UnusualError,
    read_varint,
)
from farpoint_server.errors import InvalidRequestError

# Fields of a message and of those inside it, whatever they are: some 5 ms of walking. Numbers
# that are not packed, as only senders of proto2 write them, are a field each.
MAX_FIELDS = 5_000
# A varint of 64 bits at most, in bytes and in the bits that these carry.
NUMBER_BYTES = 10
NUMBER_BITS = 7 * NUMBER_BYTES


class Bound(NamedTuple):
    """How much of one field a message may hold, over all of its occurrences."""

    name: str
    """Of the field, for errors; empty for one that is not named in the path of what is in it."""
    occurrences: int | None = None
    """Of the field: one for each element, if these are messages, strings or bytes."""
    numbers: int | None = None
    """Elements of a field of varints, packed or not: judged by their bytes, so up to ten times as
    many small ones pass."""
    parts: "Bounds | None" = None
    """What each occurrence may hold, if it is a message."""


Bounds = Mapping[int, Bound]
"""By the field's number; what is not named may be there as often as MAX_FIELDS allows."""
Check: TypeAlias = Callable[[memoryview], None]
"""Raises for a serialized message that has too many parts."""


def check_parts(message: memoryview, bounds: Bounds) -> None:
    """Raises for a message with more parts than it may have.

    Raises:
        InvalidRequestError: names the field.
        google.protobuf.message.DecodeError: it is no message.
    """
    try:
        _check(message, bounds, "", MAX_FIELDS)
    except UnusualError:
        raise DecodeError("a number ends behind its message") from None


def _check(message: memoryview, bounds: Bounds, path: str, fields: int) -> int:
    """How many of the `fields` that there may still be are left after those of a message."""
    at, end = 0, len(message)
    held: dict[int, int] = {}
    while at < end:
        if not fields:
            raise InvalidRequestError("request", f"at most {MAX_FIELDS} fields in all", "more")
        fields -= 1
        tag, at = read_varint(message, at, NUMBER_BITS)
        kind, begin = tag & 7, at
        if kind == VARINT:
            _, at = read_varint(message, at, NUMBER_BITS)
        elif kind == BYTES:
            size, begin = read_varint(message, at, NUMBER_BITS)
            at = begin + size
        elif kind in FIXED_SIZES:
            at += FIXED_SIZES[kind]
        # What is inside a group, which the contract has none of, is counted as if it were outside.
        elif kind not in (START_GROUP, END_GROUP):
            raise DecodeError(f"a field of the unknown wire type {kind}")
        if at > end:
            raise DecodeError("a field ends behind its message")
        bound = bounds.get(tag >> 3)
        if bound is not None:
            _count(bound, path, held, tag >> 3, at - begin)
            if bound.parts is not None and kind == BYTES:
                inside = f"{path}{bound.name}." if bound.name else path
                fields = _check(message[begin:at], bound.parts, inside, fields)
    return fields


def _count(bound: Bound, path: str, held: dict[int, int], number: int, size: int) -> None:
    if bound.occurrences is not None:
        held[number] = held.get(number, 0) + 1
        if held[number] > bound.occurrences:
            expected = f"at most {bound.occurrences}"
            raise InvalidRequestError(f"{path}{bound.name}", expected, "more")
    elif bound.numbers is not None:
        held[number] = held.get(number, 0) + size
        if held[number] > bound.numbers * NUMBER_BYTES:
            expected = f"at most {bound.numbers} numbers"
            got = f"{held[number]} bytes of them"
            raise InvalidRequestError(f"{path}{bound.name}", expected, got)


_Sample, _Tensor = sampling_pb2.SampleRequest, tensor_pb2.Tensor
_TENSOR: Bounds = {_Tensor.SHAPE_FIELD_NUMBER: Bound("shape", numbers=MAX_DIMENSIONS)}
_ATTRIBUTE: Bounds = {
    tensor_pb2.Attribute.VALUES_FIELD_NUMBER: Bound("values", parts=_TENSOR),
}
_PACKED: Bounds = {
    packed_cloud_pb2.PackedCloud.FIELDS_FIELD_NUMBER: Bound("fields", MAX_PACKED_FIELDS),
}


def _sample_bounds(clouds: int) -> Bounds:
    # Not `voxel_grid.origin`: numbers of eight bytes take no more in memory than on the wire.
    return {
        _Sample.POINTS_FIELD_NUMBER: Bound("points", parts=_TENSOR),
        _Sample.LENGTHS_FIELD_NUMBER: Bound("lengths", numbers=clouds),
        _Sample.SAMPLE_COUNTS_FIELD_NUMBER: Bound("sample_counts", numbers=clouds),
        _Sample.START_INDICES_FIELD_NUMBER: Bound("start_indices", numbers=clouds),
        _Sample.ATTRIBUTES_FIELD_NUMBER: Bound("attributes", MAX_ATTRIBUTES, parts=_ATTRIBUTE),
        _Sample.PACKED_CLOUD_FIELD_NUMBER: Bound("packed_cloud", parts=_PACKED),
        _Sample.SEEDS_FIELD_NUMBER: Bound("seeds", numbers=clouds),
    }


@lru_cache(8)
def check_sample(clouds: int) -> Check:
    """For a SampleRequest of at most so many clouds."""
    return partial(check_parts, bounds=_sample_bounds(clouds))


@lru_cache(8)
def check_stream(clouds: int) -> Check:
    """For a SampleStreamRequest, or a SampleLargeRequest, whose request is of the same number."""
    number = sampling_pb2.SampleStreamRequest.REQUEST_FIELD_NUMBER
    return partial(check_parts, bounds={number: Bound("", parts=_sample_bounds(clouds))})


@lru_cache(8)
def check_encode(clouds: int) -> Check:
    """For an EncodeRequest of at most so many clouds."""
    kind = sampling_pb2.EncodeRequest
    bounds: Bounds = {
        kind.POINTS_FIELD_NUMBER: Bound("points", parts=_TENSOR),
        kind.LENGTHS_FIELD_NUMBER: Bound("lengths", numbers=clouds),
        kind.ATTRIBUTES_FIELD_NUMBER: Bound("attributes", parts=_TENSOR),
    }
    return partial(check_parts, bounds=bounds)
