"""Answers of Sample: exact rows, requested outputs, packed clouds, and checksums."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from google.protobuf.message import DecodeError
from tests.e2e.conftest import MESSAGE_BYTES
from tests.support.clouds import covering_radius, furthest_points, street_scan
from tests.support.messages import (
    array,
    columns_of,
    foxglove_message,
    recorded_messages,
    ros_message,
    sample_request,
    tensor,
)

import farpoint
from farpoint import PackedCloud
from farpoint._connection.call import CallContext
from farpoint._rpcs.sample import SampleRpc
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


M = 200


def check_same(packed: farpoint.Sample, plain: farpoint.Sample) -> None:
    np.testing.assert_array_equal(packed.indices, plain.indices)
    assert packed.distances.tobytes() == plain.distances.tobytes()
    np.testing.assert_array_equal(packed.points, plain.points)
    assert (packed.origin is None) == (plain.origin is None)
    if plain.origin is not None:
        np.testing.assert_array_equal(packed.origin, plain.origin)


@pytest.mark.parametrize("number", [0, 1])
def test_a_recorded_message_is_sampled_as_its_points(client, number):
    message = recorded_messages()[number]
    cloud = PackedCloud.from_ros(message)
    sample = client.sample(message, M)
    check_same(sample, client.sample(cloud.points, M))
    (streamed,) = client.sample_stream([message], M)
    check_same(streamed.result(), sample)
    assert list(sample.attributes) == ["intensity", "t", "reflectivity", "ring", "noise", "range"]
    for name, values in sample.attributes.items():
        np.testing.assert_array_equal(values, cloud.records[name][sample.indices])


def test_messages_of_one_kind_of_several_and_arrays_are_a_batch(client):
    messages = recorded_messages()
    samples = client.sample(messages, [M, 50])
    for sample, message, m in zip(samples, messages, (M, 50), strict=True):
        check_same(sample, client.sample(message, m))
        assert len(sample.attributes) == 6
    points = RANDOM.normal(size=(90, 3)).astype(np.float32)
    batch = [ros_message(columns_of(points)), points, foxglove_message(columns_of(points))]
    for mixed in (batch, [batch[0], ros_message(columns_of(points), order=">")]):
        for sample in client.sample(mixed, 30):
            check_same(sample, client.sample(points, 30))


@pytest.mark.parametrize("height", [1, 100])
def test_a_cloud_above_the_message_limit_is_sent_in_pieces(client, server, height):
    points = RANDOM.normal(size=(MESSAGE_BYTES // 10, 3)).astype(np.float32)
    points = points[: len(points) // height * height]
    message = ros_message(columns_of(points), height=height, gap=11)
    assert len(message.data) > MESSAGE_BYTES
    sample = client.sample(message, 6)
    check_same(sample, client.sample(points, 6))
    server.wait_for(
        lambda line: line.get("request_id") == sample.request_id and line["method"] == "SampleLarge"
    )


def test_packed_clouds_in_shared_memory(start, tmp_path: Path):
    path = f"unix:{tmp_path}/memory"
    server = start("--shared-memory-listen", path)
    scan = street_scan()[:, :3]
    message = ros_message(columns_of(scan), height=2, gap=1)
    with (
        farpoint.Client(server.address) as plain,
        farpoint.Client(server.address, shared_memory=path) as client,
    ):
        expected = plain.sample(scan, M)
        check_same(client.sample(message, M), expected)
        for sample in client.sample([message, message], M):
            check_same(sample, expected)
        nan = ros_message(columns_of(np.full_like(scan, np.nan)))
        with pytest.raises(farpoint.InvalidArgumentError, match="NaN"):
            client.sample(nan, M)


CLOUDS = [RANDOM.random((n, 3)) for n in (300, 500)]


def test_no_byte_of_an_answer_can_be_flipped_unnoticed(stub):
    """Timings aside, which are no data. Without checksums many flips give other numbers."""
    assert flips(stub, True)["wrong"] == 0
    assert flips(stub, False)["wrong"] > 500


def flips(stub, checksums: bool) -> Counter:
    rpc = SampleRpc(CLOUDS, [9, 12], checksums=checksums)
    raw = stub.Sample(rpc.request).SerializeToString()
    expected = numbers(rpc, raw)
    outcomes: Counter = Counter()
    for at in range(len(raw)):
        for mask in (1, 2, 4, 8, 16, 32, 64, 128, 255):
            damaged = raw[:at] + bytes([raw[at] ^ mask]) + raw[at + 1 :]
            try:
                got = numbers(rpc, damaged)
            except (farpoint.FarpointError, DecodeError):
                outcomes["noticed"] += 1
            else:
                outcomes["right" if got == expected else "wrong"] += 1
    assert outcomes["noticed"] > 500, outcomes
    return outcomes


def numbers(rpc: SampleRpc, raw: bytes) -> list[bytes]:
    samples = rpc.read(pb.SampleResponse.FromString(raw), CallContext(None))
    arrays = [(s.indices, s.points, s.distances, s.origin) for s in samples]
    return [array.tobytes() for each in arrays for array in each]
