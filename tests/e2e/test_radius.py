"""Sampling to a covering radius: through the service, both clients, streams and the command."""

import numpy as np
import pytest
from tests.support.brute_force import furthest_points
from tests.support.clouds import ten_scans
from tests.support.command import run_farpoint
from tests.support.messages import array, sample_request, tensor

import farpoint
from farpoint.v1 import sampling_pb2 as pb

RANDOM = np.random.default_rng(11)


def cloud(points: int) -> np.ndarray:
    return RANDOM.normal(size=(points, 3)).astype(np.float32)


def assert_begins(short: farpoint.Sample, whole: farpoint.Sample, radius: float) -> None:
    """`short` is the beginning of `whole` that covers the cloud to the radius first."""
    count = int((whole.distances <= np.float32(radius)).argmax()) + 1
    assert short.indices.tolist() == whole.indices[:count].tolist()
    assert short.distances.tolist() == whole.distances[:count].tolist()
    assert short.covering_radius <= np.float32(radius)


def test_a_sample_ends_at_the_radius(client):
    points = cloud(600)
    whole = client.sample(points, 600)
    for radius in (0.0, float(whole.distances[20]), 0.5, float("inf")):
        assert_begins(client.sample(points, radius=radius), whole, radius)


def test_each_cloud_of_a_batch_ends_by_itself(client):
    scans = [scan[:3000, :3].astype(np.float32) for scan in ten_scans()]
    wholes = client.sample(scans, [len(scan) for scan in scans])
    shorts = client.sample(scans, radius=2.0)
    assert len({len(short.indices) for short in shorts}) > 1
    for short, whole in zip(shorts, wholes, strict=True):
        assert_begins(short, whole, 2.0)


def test_coincident_points_of_other_requests_are_all_sampled(client):
    """A request without a radius that shares the launch does not end at its duplicates."""
    equal = np.zeros((50, 3), np.float32)
    pairs = list(client.sample_stream([equal, equal], 50))
    assert [sorted(item.result().indices.tolist()) for item in pairs] == [list(range(50))] * 2
    assert len(client.sample(equal, radius=0.0).indices) == 1


def test_rows_that_are_not_finite_are_left_out(client):
    points = cloud(80)
    points[::4] = np.nan
    sample = client.sample(points, radius=0.0, nonfinite="ignore")
    assert sorted(sample.indices) == [i for i in range(80) if i % 4]


def test_float64_and_shared_counts_on_the_wire(stub):
    points = cloud(300).astype(np.float64) + 5e6
    request = pb.SampleRequest(
        points=tensor(points), lengths=[100, 200], covering_radius=0.7, return_points=True
    )
    response = stub.Sample(request)
    counts = list(response.lengths)
    assert len(counts) == 2
    assert all(1 < count < 100 for count in counts)
    rows = array(response.indices, "<i4")
    assert len(rows) == sum(counts)
    for begin, part in ((0, rows[: counts[0]]), (100, rows[counts[0] :])):
        one = points[begin : begin + (100 if begin == 0 else 200)]
        expected = furthest_points((one - one[0]).astype(np.float32), len(part))
        assert part.tolist() == expected.tolist()
    within = np.concatenate([rows[: counts[0]], rows[counts[0] :] + 100])
    np.testing.assert_array_equal(array(response.points, "<f8"), points[within])


@pytest.mark.parametrize("radius", [-1.0, float("nan")])
def test_a_wrong_radius_is_named(client, stub, radius):
    with pytest.raises(farpoint.InvalidArgumentError, match="radius must be") as failure:
        client.sample(cloud(5), radius=radius)
    assert failure.value.field == "covering_radius"
    with pytest.raises(Exception, match=r"covering_radius: expected 0 or more, got") as refused:
        stub.Sample(sample_request(cloud(5), 2, covering_radius=radius))
    assert refused.value.code().name == "INVALID_ARGUMENT"


async def test_a_stream_and_the_client_for_asyncio(server):
    points = cloud(400)
    async with farpoint.AsyncClient(server.address) as client:
        whole = await client.sample(points, 400)
        assert_begins(await client.sample(points, radius=0.6), whole, 0.6)
        async for item in client.sample_stream([points], radius=0.6):
            assert_begins(item.result(), whole, 0.6)


def test_the_command(server, client, tmp_path):
    points, source = cloud(400), tmp_path / "cloud.npy"
    np.save(source, points)
    target = tmp_path / "out.npy"
    command = ["sample", "--server", server.address, str(source), "-o", str(target)]
    done = run_farpoint(*command, "--radius", 0.6)
    assert done.exit_code == 0, done.output
    expected = client.sample(points, radius=0.6)
    np.testing.assert_array_equal(np.load(target), points[expected.indices])
    assert run_farpoint(*command).exit_code != 0
