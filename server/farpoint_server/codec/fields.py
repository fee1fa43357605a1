"""Protobuf wire format: walks and writes the fields of serialized messages.

As in https://protobuf.dev/programming-guides/encoding.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TypeAlias

Buffer: TypeAlias = bytes | memoryview
"""Bytes: what is a view has one dimension and elements of one byte."""
VARINT, FIXED64, BYTES, START_GROUP, END_GROUP, FIXED32 = range(6)
FIXED_SIZES = {FIXED64: 8, FIXED32: 4}
MAX_FIELDS = 64


class UnusualError(Exception):
    """Something that our own senders never write; protobuf says what it means, if anything."""


def cut(message: memoryview, number: int) -> tuple[bytes, memoryview]:
    """A message without its only field of a number, which holds bytes, and these bytes.

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
    """The number at a place, of at most `bits`, and the place behind it; raises UnusualError."""
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


# A caller's clouds are often of one size, and so is all that is said of sizes.
@lru_cache(1024)
def nested_head(number: int, size: int) -> bytes:
    """The tag and the size of a field that holds bytes or a message."""
    return packed_varint(number << 3 | BYTES) + packed_varint(size)


def packed_varint(value: int) -> bytes:
    """A number as it is written."""
    packed = bytearray()
    while value >= 0x80:
        packed.append(value & 0x7F | 0x80)
        value >>= 7
    packed.append(value)
    return bytes(packed)
