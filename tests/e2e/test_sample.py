"""Answers of Sample: exact indices and requested outputs."""

import numpy as np
import pytest
from tests.support.brute_force import covering_radius, furthest_points
from tests.support.messages import array, sample_request, tensor

from farpoint.v1 import sampling_pb2 as pb
from farpoint.v1 import tensor_pb2

RANDOM = np.random.default_rng(7)


def random_cloud(points: int) -> np.ndarray:
    return RANDOM.normal(size=(points, 3)).astype(np.float32)


def test_a_raw_caller_gets_all_that_it_asks_for(stub):
    points = random_cloud(500)
    tags = RANDOM.integers(-9, 9, (500, 2, 3)).astype(np.int16)
    request = sample_request(
        points,
        [20, 30],
        lengths=[200, 300],
        start_indices=[5, 6],
        method=pb.SAMPLING_METHOD_FARTHEST_POINT,
        attributes=[tensor_pb2.Attribute(name="tags", values=tensor(tags))],
        return_points=True,
        return_distances=True,
    )
    response = stub.Sample(request)
    first, second = furthest_points(points[:200], 20, 5), furthest_points(points[200:], 30, 6)
    rows = np.concatenate([first, second + 200])
    assert array(response.indices, "<i4").tolist() == [*first, *second]
    assert list(response.lengths) == [20, 30]
    np.testing.assert_array_equal(array(response.points, "<f4"), points[rows])
    np.testing.assert_array_equal(array(response.attributes[0].values, "<i2"), tags[rows])
    distances = array(response.distances, "<f4")
    assert distances[19] == pytest.approx(covering_radius(points[:200], first), rel=1e-6)
    assert distances[49] == pytest.approx(covering_radius(points[200:], second), rel=1e-6)
    assert not response.HasField("origins")
    timings = response.timings
    assert 0 < timings.compute_ms <= timings.server_ms
    assert 0 <= timings.queue_ms <= timings.server_ms


def test_a_cloud_that_takes_longer_than_predicted_is_sampled(client):
    """Its sizes are those of work on the event loop, which gives it up, and the engine takes it."""
    scales = np.exp2(RANDOM.uniform(-180, 60, (15_000, 1)))
    points = (scales * RANDOM.normal(size=(15_000, 3))).astype(np.float32)
    sample = client.sample(points, 150)
    assert sample.indices.tolist() == furthest_points(points, 150).tolist()
    assert sample.timings.queue_ms > 0


def test_map_coordinates_sample_as_exactly_as_centered_ones(stub, client):
    lattice = RANDOM.integers(0, 2000, (400, 3)) / 128  # exact wherever they are shifted to
    utm = lattice + np.array([512_701, 5_403_550, 295.25])
    expected = furthest_points((utm - utm[0]).astype(np.float32), 60)
    assert expected.tolist() != furthest_points(utm.astype(np.float32), 60).tolist()
    assert client.sample(utm, 60).indices.tolist() == expected.tolist()
    response = stub.Sample(sample_request(utm, 60, lengths=[400]))
    np.testing.assert_array_equal(array(response.origins, "<f8"), utm[:1])
