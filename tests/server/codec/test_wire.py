"""Hand-written half of the parser: it means what protobuf means and refuses many parts."""

import random

import numpy as np
import pytest
from google.protobuf.message import DecodeError, Message
from tests.support.messages import FUZZ_INPUTS, field, mutated

from farpoint.inference import open_inference_pb2 as oi
from farpoint.v1 import packed_cloud_pb2, tensor_pb2
from farpoint.v1 import sampling_pb2 as pb
from farpoint_server.codec import sample_request, wire, wire_limits
from farpoint_server.codec.coordinates import decode_sample_request
from farpoint_server.codec.open_inference.messages import read_infer_message
from farpoint_server.codec.sample_request import (
    SampleMessage,
    parse_sample_request,
    read_sample_message,
    read_stream_message,
    read_upload_data,
)
from farpoint_server.codec.tensors import (
    MAX_ATTRIBUTES,
    MAX_DIMENSIONS,
    MAX_PACKED_FIELDS,
    RequestLimits,
)
from farpoint_server.codec.wire_limits import limits_of
from farpoint_server.errors import InvalidRequestError

LIMITS = RequestLimits(message_bytes=1 << 20, points=200, clouds=9)
CLOUDS = 1000


def message(points: int, **fields) -> pb.SampleRequest:
    data = np.arange(3 * points, dtype="<f4").tobytes()
    return pb.SampleRequest(
        points=tensor_pb2.Tensor(data_type=1, shape=[points, 3], data=data),
        sample_counts=[1],
        **fields,
    )


def packed_message(points: int, **fields) -> pb.SampleRequest:
    described = [
        packed_cloud_pb2.PackedField(name=name, offset=4 * i, data_type=1)
        for i, name in enumerate("xyz")
    ]
    cloud = packed_cloud_pb2.PackedCloud(
        fields=described, width=points // 2, height=2, point_step=12, data=bytes(12 * points)
    )
    return pb.SampleRequest(packed_cloud=cloud, sample_counts=[1], **fields)


ATTRIBUTE = tensor_pb2.Attribute(name="é", values=tensor_pb2.Tensor(data_type=7, data=b"x" * 40))
SEEDS = [
    message(4).SerializeToString(),
    message(20, lengths=[5, 15], start_indices=[-1, 3], method=1).SerializeToString(),
    message(9, attributes=[ATTRIBUTE] * 2, return_points=True).SerializeToString(),
    message(4).SerializeToString() * 2,
    pb.SampleRequest().SerializeToString(),
    pb.SampleRequest(sample_counts=range(70)).SerializeToString() + message(4).SerializeToString(),
    packed_message(4).SerializeToString(),
    packed_message(20, lengths=[5, 15], attributes=[ATTRIBUTE]).SerializeToString(),
    packed_message(4).SerializeToString() + message(4).SerializeToString(),
]


@pytest.fixture
def split_everything(monkeypatch):
    monkeypatch.setattr(wire, "SPLIT_BYTES", 0)


def parsed(kind: type[Message], raw: bytes) -> Message | None:
    try:
        return kind.FromString(raw)
    except DecodeError:
        return None


def read(function, raw: bytes, *options):
    try:
        return function(raw, *options)
    except InvalidRequestError:
        return None


def whole(read: SampleMessage) -> pb.SampleRequest:
    """The message with its data put back."""
    request = pb.SampleRequest()
    request.CopyFrom(read.request)
    if read.points_data is not None:
        points = request.points if request.HasField("points") else request.packed_cloud
        points.data = bytes(read.points_data)
    return request


@pytest.mark.usefixtures("split_everything")
def test_damaged_requests_are_read_as_protobuf_reads_them():
    chance = random.Random(5)
    outcomes = {"no message": 0, "wrong": 0, "work": 0, "cut": 0}
    for i in range(FUZZ_INPUTS):
        raw = mutated(SEEDS[i % len(SEEDS)], chance)
        expected, got = (parsed(pb.SampleRequest, raw), read(read_sample_message, raw, CLOUDS))
        assert (expected is None) == (got is None), raw
        if got is None:
            outcomes["no message"] += 1
            continue
        assert whole(got).SerializeToString(deterministic=True) == expected.SerializeToString(
            deterministic=True
        ), raw
        assert got.size == len(raw)
        outcomes["cut"] += got.points_data is not None
        try:
            decode_sample_request(parse_sample_request(got, LIMITS))
            outcomes["work"] += 1
        except InvalidRequestError:
            outcomes["wrong"] += 1
    assert min(outcomes.values()) > FUZZ_INPUTS // 20, outcomes


@pytest.mark.usefixtures("split_everything")
def test_damaged_messages_of_streams_are_read_as_protobuf_reads_them():
    chance = random.Random(6)
    seeds = [
        pb.SampleStreamRequest(request=message(20), mode=2).SerializeToString(),
        pb.SampleLargeRequest(points_data=b"x" * 40).SerializeToString(),
        pb.SampleLargeRequest(request=message(4)).SerializeToString(),
        pb.SampleStreamRequest(request=packed_message(20)).SerializeToString(),
    ]
    for i in range(FUZZ_INPUTS):
        raw = mutated(seeds[i % 4], chance)
        expected, got = (
            parsed(pb.SampleStreamRequest, raw),
            read(read_stream_message, raw, CLOUDS),
        )
        assert (expected is None) == (got is None), raw
        if got is not None:
            assert (whole(got[0]), got[1]) == (expected.request, expected.mode), raw
        large, data = (parsed(pb.SampleLargeRequest, raw), read(read_upload_data, raw, CLOUDS))
        expected_data = large.points_data if large and large.HasField("points_data") else None
        assert (None if data is None else bytes(data)) == expected_data, raw


@pytest.mark.parametrize("size", [0, 1, 127, 128, 16_383, 16_384, 1 << 21])
def test_a_field_put_together_by_hand_is_what_protobuf_writes(size):
    data = np.random.default_rng(0).bytes(size)
    chunks = wire.length_delimited(1, wire.tensor_chunks(9, [size], data))
    tensor = tensor_pb2.Tensor(data_type=9, shape=[size], data=data)
    assert pb.SampleRequest.FromString(b"".join(chunks)) == pb.SampleRequest(points=tensor)


@pytest.mark.usefixtures("split_everything")
def test_the_points_are_not_copied():
    raw = message(100).SerializeToString()
    got = read_sample_message(raw, CLOUDS)
    assert np.shares_memory(np.frombuffer(got.points_data, "u1"), np.frombuffer(raw, "u1"))
    assert got.request.points.data == b""


@pytest.mark.parametrize("before", range(4))
def test_points_that_lie_across_the_boundaries_of_numbers_are_moved(before):
    data = memoryview(bytes(before) + message(7).points.data)[before:]
    request = message(7)
    request.points.ClearField("data")
    parsed = parse_sample_request(SampleMessage(request, data, 100), LIMITS)
    array = decode_sample_request(parsed).work.clouds.points
    assert array.ctypes.data % 4 == 0
    assert array.ravel().tolist() == list(range(21))
    assert np.shares_memory(array, np.frombuffer(data, "u1")) == (before == 0)


def request_of(size: int) -> bytes:
    """A serialized SampleRequest of exactly so many bytes, the last of them an unknown field."""
    tensor = tensor_pb2.Tensor(data_type=1, shape=[1, 3], data=bytes(size - 100))
    raw = pb.SampleRequest(points=tensor).SerializeToString()
    left = size - len(raw) - 3
    return raw + wire.packed_varint(99 << 3 | 2) + bytes([left]) + bytes(left)


@pytest.mark.parametrize("size", [wire.SPLIT_BYTES - 1, wire.SPLIT_BYTES])
def test_the_data_of_a_message_that_is_long_enough_stays_where_it_arrived(size):
    alone = read_sample_message(request_of(size), CLOUDS)
    raw = b"".join(wire.length_delimited(1, [request_of(size)])) + bytes([16, 1])
    streamed, mode = read_stream_message(raw, CLOUDS)
    for message in (alone, streamed):
        assert (message.points_data is not None) == (size == wire.SPLIT_BYTES)
        assert message.size == size
    assert mode == 1


MAX_CLOUDS = 4
MANY = b"\1" * (10 * MAX_CLOUDS + 1)
UNPACKED = b"\x10\1" * (10 * MAX_CLOUDS + 1)
DIMENSIONS = field(2, b"\1" * (10 * MAX_DIMENSIONS + 1))
SAMPLE = {
    "lengths": field(2, MANY),
    "sample_counts": field(3, MANY),
    "start_indices": field(4, MANY),
    "lengths in two pieces": field(2, MANY[:40]) + field(2, MANY[40:]),
    "lengths that are not packed": UNPACKED,
    "lengths in a group": b"\xf3\1" + UNPACKED + b"\xf4\1",
    "attributes": field(7, b"") * (MAX_ATTRIBUTES + 1),
    "points.shape": field(1, DIMENSIONS),
    "packed_cloud.fields": field(11, field(1, b"") * (MAX_PACKED_FIELDS + 1)),
    "attributes.values.shape": field(7, field(2, DIMENSIONS)),
    "request of unknown fields": b"\xf8\7\1" * (wire_limits.MAX_FIELDS + 1),
    "request of unknown fields within": field(1, b"\xf8\7\1" * (wire_limits.MAX_FIELDS + 1)),
}
INFER = {
    "inputs": field(5, b"") * 17,
    "outputs": field(6, b"") * 257,
    "raw_input_contents": field(7, b"") * 17,
    "parameters": field(4, b"") * 65,
    "inputs.shape": field(5, field(3, b"\1" * 321)),
    "inputs.parameters": field(5, field(4, b"") * 65),
    "outputs.parameters": field(6, field(2, b"") * 65),
    "inputs.contents.int_contents": field(5, field(5, field(2, b"\1" * 161))),
    "inputs.contents.bool_contents": field(5, field(5, field(1, b"\1" * 161))),
    "inputs.contents.bytes_contents": field(5, field(5, field(8, b"") * 17)),
}


ENCODE = {
    "points.shape": field(1, DIMENSIONS),
    "attributes.shape": field(4, DIMENSIONS),
    "lengths": field(2, MANY),
}
CHECKS = {
    "Sample": (limits_of(pb.SampleRequest, MAX_CLOUDS), SAMPLE),
    "Encode": (limits_of(pb.EncodeRequest, MAX_CLOUDS), ENCODE),
    "ModelInfer": (limits_of(oi.ModelInferRequest), INFER),
}


@pytest.mark.parametrize(
    ("rpc", "case"), [(rpc, case) for rpc, (_, cases) in CHECKS.items() for case in cases]
)
def test_a_request_of_too_many_parts_is_refused(rpc, case):
    check, cases = CHECKS[rpc]
    with pytest.raises(InvalidRequestError) as caught:
        check(memoryview(cases[case]))
    assert caught.value.field == case.partition(" ")[0]


def test_the_largest_request_that_is_allowed_passes():
    values = tensor_pb2.Tensor(shape=[2**62] * MAX_DIMENSIONS, data=bytes(99))
    request = pb.SampleRequest(
        points=values,
        lengths=[2**62] * MAX_CLOUDS,
        sample_counts=[-1] * MAX_CLOUDS,
        start_indices=[2**62] * MAX_CLOUDS,
        attributes=[tensor_pb2.Attribute(values=values)] * MAX_ATTRIBUTES,
    )
    limits_of(pb.SampleRequest, MAX_CLOUDS)(memoryview(request.SerializeToString()))


MANY_PARTS = field(7, b"") * 20_000
READERS = {
    "Sample": (lambda raw: sample_request.read_sample_message(raw, MAX_CLOUDS), MANY_PARTS),
    "SampleStream": (
        lambda raw: sample_request.read_stream_message(raw, MAX_CLOUDS),
        field(1, MANY_PARTS),
    ),
    "SampleLarge": (
        lambda raw: sample_request.read_upload_data(raw, MAX_CLOUDS),
        field(1, MANY_PARTS),
    ),
    "with data": (
        lambda raw: sample_request.read_sample_message(raw, MAX_CLOUDS),
        field(1, field(3, bytes(20_000))) + MANY_PARTS,
    ),
    "ModelInfer": (read_infer_message, field(6, field(2, b"") * 10_000)),
    "ModelInfer with data": (
        read_infer_message,
        field(7, bytes(20_000)) + field(6, field(2, b"") * 10_000),
    ),
}


@pytest.mark.parametrize("reader", READERS)
def test_every_reader_checks_what_is_large(reader):
    read, raw = READERS[reader]
    with pytest.raises(InvalidRequestError) as caught:
        read(raw)
    assert caught.value.field.endswith(("attributes", "request", "outputs.parameters"))


def test_a_small_message_is_left_to_protobuf():
    raw = field(2, b"\1" * 99)
    assert wire.read_message(raw, pb.SampleRequest, check=None).lengths == [1] * 99
