"""A SampleResponse: what was asked for is in it, of each cloud its own, and nothing else."""

import time

import numpy as np

from farpoint.v1 import sampling_pb2 as pb
from farpoint.v1 import tensor_pb2
from farpoint_server.codec.coordinates import decode_sample_request
from farpoint_server.codec.sample_request import SampleMessage, parse_sample_request
from farpoint_server.codec.sample_response import response_bytes, serialize_sample_response
from farpoint_server.codec.tensors import RequestLimits
from farpoint_server.engine.types import Outcome, Samples

LIMITS = RequestLimits(message_bytes=10_000, points=100, clouds=4)
CLOUDS = np.arange(18).reshape(6, 3)
TYPES = {"float32": 1, "float64": 2, "int16": 6}
# Of two clouds of two and four points one and two: rows 1 | 0 and 3 within each.
ROWS = np.array([1, 2, 5], np.int32)
DISTANCES = np.array([0.5, 1.5, 2.5], np.float32)


def tensor(array: np.ndarray) -> tensor_pb2.Tensor:
    return tensor_pb2.Tensor(
        data_type=TYPES[array.dtype.name], shape=array.shape, data=array.tobytes()
    )


def answer(dtype: str = "float32", **fields) -> pb.SampleResponse:
    """To a request of two clouds."""
    sent = pb.SampleRequest(
        points=tensor(CLOUDS.astype(dtype)), lengths=[2, 4], sample_counts=[1, 2], **fields
    )
    parsed = parse_sample_request(SampleMessage(sent, None, sent.ByteSize()), LIMITS)
    decoded = decode_sample_request(parsed)
    # Others in the batch may have asked for distances.
    outcome = Outcome(Samples(ROWS, DISTANCES), 1.5, 2.5)
    data = serialize_sample_response(time.monotonic() - 7, decoded, outcome)
    return pb.SampleResponse.FromString(data)


def array(sent: tensor_pb2.Tensor, dtype: str) -> list:
    return np.frombuffer(sent.data, dtype).reshape(tuple(sent.shape)).tolist()


def present(response: pb.SampleResponse) -> set[str]:
    return {field.name for field, _ in response.ListFields()}


def test_indices_count_from_the_first_row_of_their_cloud():
    response = answer()
    assert array(response.indices, "<i4") == [1, 0, 3]
    assert list(response.lengths) == [1, 2]
    assert present(response) == {"indices", "lengths", "timings"}


def test_the_times_are_in_milliseconds():
    timings = answer().timings
    assert (timings.queue_ms, timings.compute_ms) == (1.5, 2.5)
    assert 7000 <= timings.server_ms < 60_000


def test_points_come_in_their_type_if_they_are_asked_for():
    response = answer(return_points=True)
    assert response.points.data_type == 1
    assert array(response.points, "<f4") == CLOUDS[ROWS].tolist()
    assert present(response) == {"indices", "lengths", "timings", "points"}


def test_distances_come_if_they_are_asked_for():
    response = answer(return_distances=True)
    assert array(response.distances, "<f4") == DISTANCES.tolist()
    assert present(response) == {"indices", "lengths", "timings", "distances"}


def test_origins_come_with_float64():
    response = answer("float64")
    assert array(response.origins, "<f8") == CLOUDS[[0, 2]].tolist()
    assert response.origins.data_type == 2
    assert present(response) == {"indices", "lengths", "timings", "origins"}


def test_attributes_are_those_of_the_chosen_points():
    values = {"one": np.arange(6, dtype=np.int16), "two": np.arange(12.0).reshape(6, 2)}
    sent = [tensor_pb2.Attribute(name=name, values=tensor(v)) for name, v in values.items()]
    response = answer(attributes=sent)
    assert [attribute.name for attribute in response.attributes] == ["one", "two"]
    assert array(response.attributes[0].values, "<i2") == [1, 2, 5]
    assert array(response.attributes[1].values, "<f8") == values["two"][ROWS].tolist()


def test_a_response_is_counted_by_its_rows_before_it_is_made():
    values = [tensor_pb2.Attribute(name="a", values=tensor(np.zeros((6, 2))))]
    sent = pb.SampleRequest(points=tensor(CLOUDS.astype(np.float64)), sample_counts=[2])
    sent.attributes.extend(values)
    parsed = parse_sample_request(SampleMessage(sent, None, sent.ByteSize()), LIMITS)
    outcome = Outcome(Samples(ROWS[:2], None), 0, 0)
    # An index and a distance, three coordinates and two values of eight bytes.
    assert response_bytes(parsed, outcome) == 2 * (4 + 4 + 24 + 16)
