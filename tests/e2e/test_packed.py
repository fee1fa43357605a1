"""Packed clouds through the client and a server: answered as the unpacked cloud is."""

from pathlib import Path

import numpy as np
import pytest
from tests.e2e.conftest import MESSAGE_BYTES
from tests.support.clouds import street_scan
from tests.support.robots import columns_of, foxglove_message, recorded_messages, ros_message

import farpoint
from farpoint import PackedCloud

RANDOM = np.random.default_rng(9)
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


def test_shared_memory(start, tmp_path: Path):
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
