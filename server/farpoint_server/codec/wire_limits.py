"""Bounds on the repeated fields of a serialized message, checked before protobuf parses it.

A repeated field costs two bytes on the wire and hundreds in memory, so the limit on the bytes of a
message bounds neither the memory nor the time of its parsing. One walk over its fields does.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Any, NamedTuple, TypeAlias

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message

from farpoint.inference import open_inference_pb2
from farpoint_server.codec.tensors import MAX_ATTRIBUTES, MAX_DIMENSIONS, MAX_PACKED_FIELDS
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

# Fields of a message and of those inside it: some 5 ms of walking. Each number that is not packed,
# as only senders of proto2 write them, is a field.
MAX_FIELDS = 5_000
# A varint of 64 bits at most, in bytes and in the bits that these carry.
NUMBER_BYTES = 10
NUMBER_BITS = 7 * NUMBER_BYTES


class Bound(NamedTuple):
    """Limit on one field of a message, over all of its occurrences."""

    name: str
    """Of the field, for errors; empty for a message that the paths of its fields leave out."""
    occurrences: int | None = None
    """Of the field: one for each element, if these are messages, strings or bytes."""
    numbers: int | None = None
    """Elements of a field of varints, packed or not: judged by their bytes, so up to ten times as
    many small ones pass."""
    inside: "Bounds | None" = None
    """Bounds within each occurrence, if it is a message."""


Bounds = Mapping[int, Bound]
"""By the field's number; MAX_FIELDS bounds the others."""
Check: TypeAlias = Callable[[memoryview], None]
"""Raises for a serialized message that exceeds its limits."""


def check_limits(message: memoryview, bounds: Bounds) -> None:
    """Raises for a message that exceeds its limits.

    Raises:
        InvalidRequestError: names the field.
        google.protobuf.message.DecodeError: it is not a message.
    """
    try:
        _check(message, bounds, "", MAX_FIELDS)
    except UnusualError:
        raise DecodeError("a number ends behind its message") from None


def _check(message: memoryview, bounds: Bounds, path: str, fields: int) -> int:
    """The rest of the budget `fields` after those of a message."""
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
        # The contract has no groups: fields inside one count as if they were outside.
        elif kind not in (START_GROUP, END_GROUP):
            raise DecodeError(f"a field of the unknown wire type {kind}")
        if at > end:
            raise DecodeError("a field ends behind its message")
        bound = bounds.get(tag >> 3)
        if bound is not None:
            _count(bound, path, held, tag >> 3, at - begin)
            if bound.inside is not None and kind == BYTES:
                inside = f"{path}{bound.name}." if bound.name else path
                fields = _check(message[begin:at], bound.inside, inside, fields)
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


# More than any model of Open Inference has, so that wrong names get an error of their own.
MAX_INPUTS = 16
MAX_OUTPUTS = 256
_MAX_REPEATED = {
    "shape": MAX_DIMENSIONS,
    "attributes": MAX_ATTRIBUTES,
    "fields": MAX_PACKED_FIELDS,
    "inputs": MAX_INPUTS,
    "outputs": MAX_OUTPUTS,
    "raw_input_contents": MAX_INPUTS,
    "parameters": 64,
    # Points are floats; other inputs have few elements.
    **{field.name: 16 for field in open_inference_pb2.InferTensorContents.DESCRIPTOR.fields},
}
# Not floats: they take no more in memory than on the wire.
_VARINTS = (
    *(FieldDescriptor.CPPTYPE_INT32, FieldDescriptor.CPPTYPE_INT64, FieldDescriptor.CPPTYPE_BOOL),
    *(FieldDescriptor.CPPTYPE_UINT32, FieldDescriptor.CPPTYPE_UINT64),
)


@lru_cache(32)
def limits_of(kind: type[Message], clouds: int = 1) -> Check:
    """The check of messages of one kind with at most so many clouds."""
    return partial(check_limits, bounds=_bounds_of(kind.DESCRIPTOR, clouds))


def _bounds_of(message: Any, clouds: int) -> Bounds:
    """Limits of repeated fields: _MAX_REPEATED, or one entry for each cloud."""
    bounds: dict[int, Bound] = {}
    for field in message.fields:
        most = _MAX_REPEATED.get(field.name, clouds) if field.is_repeated else None
        if field.message_type is not None:
            name = "" if field.name == "request" else field.name
            bounds[field.number] = Bound(name, most, inside=_bounds_of(field.message_type, clouds))
        elif most is not None and field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
            bounds[field.number] = Bound(field.name, most)
        elif most is not None and field.cpp_type in _VARINTS:
            bounds[field.number] = Bound(field.name, numbers=most)
    return bounds
