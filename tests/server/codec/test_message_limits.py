"""Messages of many parts are refused before they are parsed; what passes has few."""

import random

import pytest
from google.protobuf.message import DecodeError
from tests.support.messages import FUZZ_INPUTS, field

from farpoint.inference import open_inference_pb2 as oi
from farpoint.v1 import sampling_pb2 as pb
from farpoint.v1 import tensor_pb2
from farpoint_server.codec import sample_request, wire, wire_limits
from farpoint_server.codec.open_inference.message import BOUNDS, read_infer_message
from farpoint_server.codec.tensors import MAX_ATTRIBUTES, MAX_DIMENSIONS, MAX_PACKED_FIELDS
from farpoint_server.codec.wire_limits import Bound, check_limits, limits_of
from farpoint_server.errors import InvalidRequestError

CLOUDS = 4
MANY = b"\1" * (10 * CLOUDS + 1)
UNPACKED = b"\x10\1" * (10 * CLOUDS + 1)
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


@pytest.mark.parametrize("case", SAMPLE)
def test_a_sample_request_of_too_many_parts_is_refused(case):
    with pytest.raises(InvalidRequestError) as caught:
        limits_of(pb.SampleRequest, CLOUDS)(memoryview(SAMPLE[case]))
    assert caught.value.field == case.partition(" ")[0]


@pytest.mark.parametrize("case", INFER)
def test_an_inference_request_of_too_many_parts_is_refused(case):
    with pytest.raises(InvalidRequestError) as caught:
        check_limits(memoryview(INFER[case]), BOUNDS)
    assert caught.value.field == case


@pytest.mark.parametrize(("number", "name"), [(1, "points.shape"), (4, "attributes.shape")])
def test_an_encode_request_of_too_many_parts_is_refused(number, name):
    for raw, wrong in ((field(number, DIMENSIONS), name), (field(2, MANY), "lengths")):
        with pytest.raises(InvalidRequestError) as caught:
            limits_of(pb.EncodeRequest, CLOUDS)(memoryview(raw))
        assert caught.value.field == wrong


def test_the_largest_request_that_is_allowed_passes():
    values = tensor_pb2.Tensor(shape=[2**62] * MAX_DIMENSIONS, data=bytes(99))
    request = pb.SampleRequest(
        points=values,
        lengths=[2**62] * CLOUDS,
        sample_counts=[-1] * CLOUDS,
        start_indices=[2**62] * CLOUDS,
        attributes=[tensor_pb2.Attribute(values=values)] * MAX_ATTRIBUTES,
    )
    limits_of(pb.SampleRequest, CLOUDS)(memoryview(request.SerializeToString()))


READERS = {
    "Sample": (lambda raw: sample_request.read_sample_message(raw, CLOUDS), b""),
    "SampleStream": (lambda raw: sample_request.read_stream_message(field(1, raw), CLOUDS), b""),
    "SampleLarge": (lambda raw: sample_request.read_upload_data(field(1, raw), CLOUDS), b""),
    "with data": (
        lambda raw: sample_request.read_sample_message(raw, CLOUDS),
        field(1, field(3, bytes(20_000))),
    ),
}


@pytest.mark.parametrize("reader", READERS)
def test_every_reader_checks_what_is_large(reader):
    read, before = READERS[reader]
    with pytest.raises(InvalidRequestError) as caught:
        read(before + field(7, b"") * 20_000)
    assert caught.value.field.endswith(("attributes", "request"))


@pytest.mark.parametrize("more", [b"", field(7, bytes(20_000))])
def test_the_reader_of_inference_requests_checks_what_is_large(more):
    with pytest.raises(InvalidRequestError) as caught:
        read_infer_message(more + field(6, field(2, b"") * 10_000))
    assert caught.value.field == "outputs.parameters"


def test_a_small_message_is_left_to_protobuf():
    raw = field(2, b"\1" * 99)
    assert wire.read_message(raw, pb.SampleRequest, check=None).lengths == [1] * 99


BOUND = {
    1: Bound("points", inside={2: Bound("shape", numbers=1)}),
    2: Bound("lengths", numbers=1),
    7: Bound("attributes", 3, inside={2: Bound("values", inside={2: Bound("shape", numbers=1)})}),
}


def test_whatever_passes_has_no_more_parts_than_it_may_have():
    """For damaged messages, whose boundaries must be seen where protobuf sees them."""
    chance = random.Random(3)
    tensor = field(2, bytes(range(1, 5))) + b"\x10\x81\0" + field(3, b"data")
    seed = field(1, tensor) + field(2, b"\1\2\3\4\5") + field(7, field(2, tensor)) * 3
    seed += b"\xf3\1" + b"\x10\1" + b"\xf4\1" + b"\x28\1"
    outcomes = {"refused": 0, "no message": 0, "passed": 0}
    for _ in range(FUZZ_INPUTS):
        raw = bytearray(seed)
        for _ in range(chance.randrange(4)):
            at = chance.randrange(len(raw))
            if chance.random() < 0.5:
                raw[at] = chance.choice((0, 1, 2, 8, 10, 16, 18, 58, 128, 129, 255))
            else:
                raw[at:at] = raw[at : at + chance.randrange(20)]
        outcomes[outcome(bytes(raw))] += 1
    assert min(outcomes.values()) > FUZZ_INPUTS // 20, outcomes


def outcome(raw: bytes) -> str:
    try:
        check_limits(memoryview(raw), BOUND)
    except InvalidRequestError:
        return "refused"
    except DecodeError:
        with pytest.raises(DecodeError):
            pb.SampleRequest.FromString(raw)
        return "no message"
    try:
        request = pb.SampleRequest.FromString(raw)
    except DecodeError:
        return "no message"
    assert len(request.lengths) <= 10, raw
    assert len(request.points.shape) <= 10, raw
    assert len(request.attributes) <= 3, raw
    assert all(len(a.values.shape) <= 10 for a in request.attributes), raw
    return "passed"


def test_typed_contents_are_the_bytes_that_arrived():
    made = oi.ModelInferRequest(model_name="fps")
    made.inputs.add(name="points").contents.fp32_contents.extend([0.5] * 5000)
    raw = made.SerializeToString()
    message = read_infer_message(raw)
    name, data = message.typed[0]
    assert (name, len(data)) == ("fp32_contents", 20_000)
    assert isinstance(data, memoryview)
    assert data.obj is raw
    assert message.request.inputs[0].name == "points"
    assert message.request.ByteSize() < 100
