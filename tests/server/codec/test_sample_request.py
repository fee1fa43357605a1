"""Bounds of a SampleRequest, and the field that is named beyond them."""

import re

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from farpoint.v1 import sampling_pb2 as pb
from farpoint.v1 import tensor_pb2
from farpoint_server.codec.coordinates import DecodedSampleRequest, decode_sample_request
from farpoint_server.codec.sample_request import (
    SampleMessage,
    check_message_size,
    parse_sample_request,
)
from farpoint_server.codec.sample_response import serialize_sample_response
from farpoint_server.codec.tensors import (
    MAX_DIMENSIONS,
    RequestLimits,
    check_points,
    data_bytes,
    parse_tensor,
)
from farpoint_server.engine.types import Outcome, Samples
from farpoint_server.errors import InvalidRequestError

LIMITS = RequestLimits(message_bytes=1000, points=100, clouds=5)


def tensor(*shape: int, data_type: int = 1) -> tensor_pb2.Tensor:
    """Of zeros."""
    return tensor_pb2.Tensor(
        data_type=data_type, shape=shape, data=bytes(4 * int(np.prod(shape, dtype=object)))
    )


def request(points: int = 4, **fields) -> pb.SampleRequest:
    return pb.SampleRequest(**{"points": tensor(points, 3), "sample_counts": [1]} | fields)


def cut(sent: pb.SampleRequest) -> SampleMessage:
    """As it arrives if it is large: the points' data beside it."""
    size, data = sent.ByteSize(), sent.points.data
    rest = pb.SampleRequest()
    rest.CopyFrom(sent)
    rest.points.ClearField("data")
    return SampleMessage(rest, data, size)


def whole(sent: pb.SampleRequest) -> SampleMessage:
    return SampleMessage(sent, None, sent.ByteSize())


def attribute(name: str, *shape: int) -> tensor_pb2.Attribute:
    return tensor_pb2.Attribute(name=name, values=tensor(*shape))


@pytest.mark.parametrize("arrived", [cut, whole])
@pytest.mark.parametrize(
    ("points", "attributes", "field"),
    [
        (90, [attribute("a", 90)], "points.data"),
        (20, [attribute("a", 200)], "attributes[0].values.data"),
        (20, [attribute("a", 20), attribute("b", 300)], "attributes[1].values.data"),
        (50, [attribute("a", 140)], "points.data"),
    ],
)
def test_the_largest_field_of_a_message_that_is_too_large_is_named(
    arrived, points, attributes, field
):
    message = arrived(request(points, attributes=attributes))
    with pytest.raises(InvalidRequestError, match="at most 1000 bytes") as caught:
        check_message_size(message, LIMITS)
    assert caught.value.field == field


def test_a_message_may_have_as_many_bytes_as_the_limit():
    message = whole(request())
    check_message_size(message, RequestLimits(message.size, 100, 5))
    with pytest.raises(InvalidRequestError):
        check_message_size(message, RequestLimits(message.size - 1, 100, 5))


def test_a_size_of_zero_is_a_size():
    values = tensor(4, 0)
    assert parse_tensor(values, "values").array().shape == (4, 0)
    assert data_bytes(tensor(0, 7), "values") == 0
    parsed = parse_sample_request(whole(request(attributes=[attribute("none", 4, 0)])), LIMITS)
    assert [(name, v.shape) for name, v in parsed.attributes] == [("none", (4, 0))]


def test_a_size_below_zero_is_wrong():
    with pytest.raises(InvalidRequestError, match="no negative size"):
        data_bytes(tensor_pb2.Tensor(data_type=1, shape=[4, -1]), "values")


def test_a_tensor_has_at_most_32_dimensions():
    assert MAX_DIMENSIONS == 32
    assert parse_tensor(tensor(*[1] * 32), "values").array().ndim == 32
    with pytest.raises(InvalidRequestError, match="at most 32 dimensions"):
        parse_tensor(tensor(*[1] * 33), "values")


@pytest.mark.parametrize(("points", "right"), [(0, False), (1, True), (100, True), (101, False)])
def test_points_are_1_to_the_limit(points, right):
    if right:
        check_points(tensor(points, 3), LIMITS)
    else:
        with pytest.raises(InvalidRequestError, match="1 to 100 points"):
            check_points(tensor(points, 3), LIMITS)


@pytest.mark.parametrize("shape", [(12,), (4, 2), (4, 4), (4, 3, 1)])
def test_points_are_rows_of_three(shape):
    with pytest.raises(InvalidRequestError, match=r"\(P, 3\)"):
        check_points(tensor(*shape), LIMITS)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"lengths": [1] * 4}, None),
        ({"lengths": [1, 1, 1, 1, 0]}, "lengths[4]"),
        ({"lengths": [4, 1]}, "lengths"),
        ({"lengths": [3]}, "lengths"),
        ({"lengths": [5]}, "lengths[0]"),
        ({"sample_counts": [4]}, None),
        ({"sample_counts": [5]}, "sample_counts[0]"),
        ({"sample_counts": [0]}, "sample_counts[0]"),
        ({"lengths": [1, 3], "sample_counts": [1, 3]}, None),
        ({"lengths": [1, 3], "sample_counts": [1, 4]}, "sample_counts[1]"),
        ({"lengths": [1, 3], "sample_counts": [2]}, "sample_counts[0]"),
        ({"lengths": [1, 3], "sample_counts": [1, 1, 1]}, "sample_counts"),
        ({"start_indices": [3]}, None),
        ({"start_indices": [4]}, "start_indices[0]"),
        ({"start_indices": [-1]}, "start_indices[0]"),
        ({"lengths": [1, 3], "start_indices": [0, 2]}, None),
        ({"lengths": [1, 3], "start_indices": [0, 3]}, "start_indices[1]"),
        ({"method": 7}, "method"),
        ({"nonfinite_policy": 7}, "nonfinite_policy"),
        ({"attributes": [attribute("a", 4), attribute("b", 4, 2)]}, None),
        ({"attributes": [attribute("a", 4), attribute("a", 4)]}, "attributes[1].name"),
        ({"attributes": [attribute("", 4)]}, "attributes[0].name"),
        ({"attributes": [attribute("a", 5)]}, "attributes[0].values.shape"),
        ({"attributes": [attribute("a")]}, "attributes[0].values.shape"),
    ],
)
def test_numbers_at_their_bounds(fields, field):
    if field is None:
        parse_sample_request(whole(request(**fields)), LIMITS)
        return
    with pytest.raises(InvalidRequestError) as caught:
        parse_sample_request(whole(request(**fields)), LIMITS)
    assert caught.value.field == field


def test_what_was_sent_in_the_message_is_not_copied():
    sent = request(attributes=[attribute("a", 4), attribute("b", 4, 2)])
    parsed = parse_sample_request(whole(sent), LIMITS)
    assert parsed.shared_bytes == 0
    assert parsed.owned().points.data is parsed.points.data


NUMBERS = st.integers(1, 3) | st.integers(-1, 5) | st.integers(-(2**63), 2**63 - 1)
TENSORS = st.builds(
    tensor_pb2.Tensor,
    data_type=st.integers(1, 4) | st.integers(0, 15),
    shape=st.just([4, 3]) | st.lists(NUMBERS, max_size=4),
    data=st.binary(max_size=100) | st.sampled_from([bytes(48), bytes(24), b"\x7f" * 96]),
)
GOOD = {
    "points": tensor_pb2.Tensor(data_type=1, shape=[4, 3], data=bytes(48)),
    "lengths": [1, 3],
    "sample_counts": [1],
}
PER_CLOUD = st.lists(NUMBERS, max_size=3)
ATTRIBUTES = st.builds(tensor_pb2.Attribute, name=st.text(max_size=2), values=TENSORS)
CHANGES = st.fixed_dictionaries(
    {},
    optional={
        "points": TENSORS,
        "lengths": PER_CLOUD,
        "sample_counts": PER_CLOUD,
        "start_indices": PER_CLOUD,
        "method": st.integers(-1, 3),
        "nonfinite_policy": st.integers(-1, 3),
        "attributes": st.lists(ATTRIBUTES, max_size=2),
        "return_points": st.booleans(),
    },
)


def decode_or_error(sent: pb.SampleRequest) -> DecodedSampleRequest | InvalidRequestError:
    try:
        return decode_sample_request(parse_sample_request(whole(sent), LIMITS))
    except InvalidRequestError as error:
        return error


@given(CHANGES)
@example({"lengths": [1, 1]})
def test_whatever_is_sent_is_either_work_or_named_as_wrong(changes):
    decoded = decode_or_error(pb.SampleRequest(**GOOD | changes))
    if isinstance(decoded, InvalidRequestError):
        assert re.match(r"\w+", decoded.field)[0] in pb.SampleRequest.DESCRIPTOR.fields_by_name
        return
    clouds = decoded.work.clouds
    assert clouds.points.shape == (clouds.lengths.sum(), 3)
    assert clouds.points.dtype == np.float32
    assert (clouds.sample_counts >= 1).all()
    assert (clouds.sample_counts <= clouds.lengths).all()
    firsts = clouds.lengths.cumsum() - clouds.lengths
    picked = [
        first + row
        for first, m in zip(firsts, clouds.sample_counts, strict=True)
        for row in range(m)
    ]
    outcome = Outcome(Samples(np.array(picked, np.int32), None), 0, 0)
    response = pb.SampleResponse.FromString(serialize_sample_response(0.0, decoded, outcome))
    expected = [row for m in clouds.sample_counts for row in range(m)]
    assert np.frombuffer(response.indices.data, "<i4").tolist() == expected
