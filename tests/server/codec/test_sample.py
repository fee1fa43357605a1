"""Decoding and encoding, below the wire."""

import re

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from farpoint.v1 import sampling_pb2 as pb
from farpoint.v1 import tensor_pb2
from farpoint_server.codec import sample_response
from farpoint_server.codec.coordinates import (
    DecodedSampleRequest,
    decode_sample_request,
    to_float32,
)
from farpoint_server.codec.sample_request import SampleMessage, parse_sample_request
from farpoint_server.codec.sample_response import serialize_sample_response
from farpoint_server.codec.tensors import RequestLimits, TensorView
from farpoint_server.engine.types import Outcome, Samples
from farpoint_server.errors import InvalidRequestError

LIMITS = RequestLimits(message_bytes=1 << 20, points=100, clouds=5)
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


def request(points: np.ndarray, **fields) -> pb.SampleRequest:
    types = {"float32": 1, "float64": 2}
    sent = tensor_pb2.Tensor(
        data_type=types[points.dtype.name], shape=points.shape, data=points.tobytes()
    )
    return pb.SampleRequest(points=sent, sample_counts=[1], **fields)


def message(sent: pb.SampleRequest) -> SampleMessage:
    return SampleMessage(sent, None, sent.ByteSize())


def decode_or_error(sent: pb.SampleRequest) -> DecodedSampleRequest | InvalidRequestError:
    try:
        return decode_sample_request(parse_sample_request(message(sent), LIMITS))
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
    response = pb.SampleResponse.FromString(
        b"".join(serialize_sample_response(0.0, decoded, outcome))
    )
    expected = [row for m in clouds.sample_counts for row in range(m)]
    assert np.frombuffer(response.indices.data, "<i4").tolist() == expected


def test_float32_is_not_copied_on_its_way_to_the_engine():
    parsed = parse_sample_request(message(request(np.ones((9, 3), np.float32))), LIMITS)
    assert np.shares_memory(
        decode_sample_request(parsed).work.clouds.points,
        np.frombuffer(parsed.points.data, np.uint8),
    )


def test_float64_is_shifted_to_the_first_finite_point_of_each_cloud():
    points = np.array([[np.nan, 0, 0], [5e6, 1, 2], [5e6 + 0.25, 1, 2], [7, 8, 9], [8, 8, 9]])
    sent = request(points, lengths=[3, 2], nonfinite_policy=pb.NONFINITE_POLICY_IGNORE)
    decoded = decode_sample_request(parse_sample_request(message(sent), LIMITS))
    assert decoded.origins.tolist() == [[5e6, 1, 2], [7, 8, 9]]
    assert decoded.work.clouds.points[1:, 0].tolist() == [0, 0.25, 0, 1]
    assert not np.isfinite(decoded.work.clouds.points[0]).all()


def test_every_float16_becomes_the_same_number_in_float32():
    halves = np.arange(3 << 16, dtype=np.uint32).astype(np.uint16).view(np.float16).reshape(-1, 3)
    view = TensorView(tensor_pb2.DATA_TYPE_FLOAT16, halves.shape, halves.tobytes())
    widened, origins = to_float32(view, np.array([len(halves)]))
    assert origins is None
    assert widened.dtype == np.float32
    np.testing.assert_array_equal(widened, halves.astype(np.float32))


@pytest.mark.parametrize(
    ("fields", "field"),
    [({"lengths": [1] * 6}, "lengths"), ({}, "points.shape")],
)
def test_limits_are_kept(fields, field):
    points = np.zeros((6 if fields else 101, 3), np.float32)
    with pytest.raises(InvalidRequestError, match=r"at most 5|1 to 100") as caught:
        parse_sample_request(message(request(points, **fields)), LIMITS)
    assert caught.value.field == field


def test_timings_are_in_the_response(monkeypatch):
    sent = message(request(np.ones((9, 3), np.float32)))
    decoded = decode_sample_request(parse_sample_request(sent, LIMITS))
    outcome = Outcome(Samples(np.array([7], np.int32), None), 1.5, 2.5)
    monkeypatch.setattr(sample_response.time, "monotonic", lambda: 10.0)
    response = pb.SampleResponse.FromString(
        b"".join(serialize_sample_response(1.0, decoded, outcome))
    )
    assert response.timings == pb.Timings(queue_ms=1.5, compute_ms=2.5, server_ms=9000.0)
    assert np.frombuffer(response.indices.data, "<i4").tolist() == [7]
