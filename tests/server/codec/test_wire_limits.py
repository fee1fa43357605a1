"""Where the hand-written half of the parser takes over from protobuf, and where it gives back."""

import pytest

from farpoint.v1 import sampling_pb2 as pb
from farpoint.v1 import tensor_pb2
from farpoint_server.codec import sample_request, streaming, wire

CLOUDS = 1000
# A field that no SampleRequest has, of the largest number that protobuf allows: its tag is a
# varint of five bytes.
UNKNOWN_FIELD = 2**29 - 1


def request(size: int) -> bytes:
    """A serialized SampleRequest of exactly so many bytes, the last of them an unknown field."""
    tensor = tensor_pb2.Tensor(data_type=1, shape=[1, 3], data=bytes(size - 100))
    raw = pb.SampleRequest(points=tensor).SerializeToString()
    left = size - len(raw) - 3
    return raw + wire.packed_varint(99 << 3 | 2) + bytes([left]) + bytes(left)


def is_cut(raw: bytes) -> bool:
    """Whether the points' data was left where it arrived."""
    return sample_request.read_sample_message(raw, CLOUDS).points_data is not None


def varint_field(number: int, *value: int) -> bytes:
    """A field of type varint whose value has these bytes."""
    return wire.packed_varint(number << 3) + bytes(value)


def test_a_message_is_cut_from_16_kib_on():
    assert wire.SPLIT_BYTES == 16_384
    assert not is_cut(request(wire.SPLIT_BYTES - 1))
    assert is_cut(request(wire.SPLIT_BYTES))


def test_a_message_of_a_stream_is_cut_if_the_request_in_it_is_long_enough():
    for size in (wire.SPLIT_BYTES - 1, wire.SPLIT_BYTES):
        raw = b"".join(wire.length_delimited(1, [request(size)])) + bytes([16, 1])
        message, mode = streaming.read_stream_message(raw, CLOUDS)
        assert (message.points_data is not None, mode) == (size == wire.SPLIT_BYTES, 1)
        assert message.size == size


def test_a_short_message_of_a_stream_is_left_to_protobuf():
    for size in (wire.SPLIT_BYTES - 1, wire.SPLIT_BYTES):
        raw = b"".join(wire.length_delimited(1, [request(size - 5)])) + bytes([16, 1])
        message, mode = streaming.read_stream_message(raw, CLOUDS)
        assert (len(raw), message.points_data, mode) == (size, None, 1)
        # Only what was taken apart says how long the request in it is.
        assert message.size == (size - 5 if size == wire.SPLIT_BYTES else size)


@pytest.mark.parametrize(("others", "cut"), [(61, True), (62, False)])
def test_a_message_of_64_fields_is_left_to_protobuf(others, cut):
    """That of `request` has two."""
    assert is_cut(varint_field(2, 1) * others + request(20_000)) == cut


@pytest.mark.parametrize(
    ("field", "cut"),
    [
        (varint_field(2, 0x81, 0x80, 0x80, 0x80, 0x01), True),
        (varint_field(2, 0x81, 0x80, 0x80, 0x80, 0x80, 0x00), False),
        (varint_field(UNKNOWN_FIELD, 1), True),
        (varint_field(UNKNOWN_FIELD, 0x7F), True),
    ],
)
def test_a_varint_of_more_than_five_bytes_is_left_to_protobuf(field, cut):
    raw = field + request(20_000)
    assert is_cut(raw) == cut
    assert len(sample_request.read_sample_message(raw, CLOUDS).request.lengths) == (field[0] == 16)


@pytest.mark.parametrize(
    ("kind", "content"), [(1, bytes(8)), (5, bytes(4)), (2, b"\x03abc"), (0, b"\x80\x01")]
)
def test_fields_of_every_type_are_passed_over(kind, content):
    unknown = wire.packed_varint(99 << 3 | kind) + content
    assert is_cut(unknown + request(20_000))
    assert is_cut(request(20_000) + unknown)


@pytest.mark.parametrize("kind", [3, 4, 6, 7])
def test_types_that_nobody_sends_are_left_to_protobuf(kind):
    with pytest.raises(wire.UnusualError):
        list(wire.walk(memoryview(bytes([99 << 3 & 0x78 | kind, 0]))))


def test_a_field_of_number_zero_is_left_to_protobuf():
    with pytest.raises(wire.UnusualError):
        list(wire.walk(memoryview(b"\x00\x01")))
    assert list(wire.walk(memoryview(b"\x08\x01"))) == [(1, 0, 0, 2)]


def test_a_field_that_ends_behind_the_message_is_left_to_protobuf():
    assert list(wire.walk(memoryview(b"\x0a\x01x"))) == [(1, 0, 2, 3)]
    with pytest.raises(wire.UnusualError):
        list(wire.walk(memoryview(b"\x0a\x02x")))


@pytest.mark.parametrize("value", [0, 1, 127, 128, 300, 2**28 - 1, 2**28, 2**35 - 1])
def test_varints_are_read_as_they_are_written(value):
    packed = wire.packed_varint(value)
    assert wire.read_varint(memoryview(b"\xff" + packed + b"\xff"), 1) == (value, 1 + len(packed))
    with pytest.raises(wire.UnusualError):
        wire.read_varint(memoryview(packed[:-1]), 0)
