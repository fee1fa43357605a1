"""Serialized protobuf messages put together by hand, for those that no library would write."""


def varint(value: int) -> bytes:
    """A number as the wire has it."""
    packed = bytearray()
    while value >= 0x80:
        packed.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*packed, value])


def field(number: int, content: bytes) -> bytes:
    """A field that holds bytes, a message or packed numbers."""
    return varint(number << 3 | 2) + varint(len(content)) + content
