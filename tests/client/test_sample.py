"""Requests and results of sample by every method."""

from collections.abc import Callable

import numpy as np
import pytest
from tests.support.clouds import covering_radius, furthest_points, street_scan, ten_scans

import farpoint
from farpoint import InvalidArgumentError, PoissonDisk, RandomSampling, VoxelGrid
from farpoint.v1 import sampling_pb2 as pb
from farpoint.v1 import tensor_pb2


def test_one_cloud_gives_one_sample(client, cloud):
    sample = client.sample(cloud, 40)
    rows = furthest_points(cloud, 40)
    assert sample.indices.tolist() == rows.tolist()
    assert sample.indices.dtype == np.int64
    assert np.array_equal(sample.points, cloud[rows])
    assert sample.distances.dtype == np.float32
    assert sample.distances.shape == (40,)
    assert sample.covering_radius == pytest.approx(covering_radius(cloud, rows), rel=1e-6)
    assert len(sample) == 40


def test_equal_clouds_give_a_list(client, cloud):
    batch, values = np.stack([cloud, -cloud, cloud * 2]), np.arange(1500).reshape(3, 500)
    samples = client.sample(batch, 10, attributes=values)
    assert [s.indices.tolist() for s in samples] == [furthest_points(c, 10).tolist() for c in batch]
    assert np.array_equal(samples[1].attributes, values[1][samples[1].indices])


def test_ragged_clouds_with_counts_and_starts_of_their_own(client):
    scans = [scan[:, :3] for scan in ten_scans()[:3]]
    samples = client.sample(scans, [5, 1, 20], start=[0, 7, 100])
    assert [len(s) for s in samples] == [5, 1, 20]
    assert [int(s.indices[0]) for s in samples] == [0, 7, 100]
    for sample, scan in zip(samples, scans, strict=True):
        assert np.array_equal(sample.points, scan[sample.indices])


def test_a_tuple_is_a_batch_and_rows_are_a_cloud(client, cloud):
    assert len(client.sample((cloud, cloud), 2)) == 2
    rows = [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [5.0, 0.0, 0.0]]
    assert client.sample(rows, 2).indices.tolist() == [0, 2]
    assert client.sample(list(cloud[:4]), 1).indices.tolist() == [0]


@pytest.mark.parametrize("empty", [[], (), np.empty((0, 10, 3), np.float32)])
def test_an_empty_batch_gives_an_empty_list_without_asking(client, server, empty):
    assert client.sample(empty, 4) == []
    assert server.requests == []


def test_each_cloud_has_its_own_origin_and_one_start_serves_all(client, cloud):
    far = [cloud + 1e6, cloud[:9] - 1e6]
    samples = client.sample([np.float64(c) for c in far], 3, start=8)
    assert [int(s.indices[0]) for s in samples] == [8, 8]
    assert [s.origin.tolist() for s in samples] == [c[0].astype(float).tolist() for c in far]


def test_an_attribute_array_is_gathered_here(client, server):
    scan = street_scan()[::12]
    sample = client.sample(scan[:, :3], 30, attributes=scan[:, 3])
    assert np.array_equal(sample.attributes, scan[sample.indices, 3])
    assert not server.requests[0].attributes
    assert not server.requests[0].return_points


def test_attributes_of_a_batch(client, cloud):
    clouds = [cloud, cloud[:50]]
    values = [np.arange(500), np.arange(50) + 1000]
    listed = client.sample(clouds, 4, attributes=values)
    named = client.sample(clouds, 4, attributes={"v": values})
    inner = client.sample(clouds, 4, attributes=[{"v": v} for v in values])
    for i, value in enumerate(values):
        expected = value[listed[i].indices]
        assert np.array_equal(listed[i].attributes, expected)
        assert np.array_equal(named[i].attributes["v"], expected)
        assert np.array_equal(inner[i].attributes["v"], expected)


def test_results_are_writable_and_independent(client, cloud):
    sample = client.sample(cloud, 4)
    sample.points[:] = 0
    sample.indices[:] = 0
    sample.distances[:] = 0
    assert cloud.any()


def test_a_sample_has_timings_a_request_id_and_shapes(client, server, cloud):
    sample = client.sample(cloud, 4, attributes={"v": np.zeros((500, 2))})
    timings = sample.timings
    assert (timings.queue_ms, timings.compute_ms, timings.server_ms) == (0.25, 0.5, 1.0)
    assert timings.wire_ms == pytest.approx(timings.total_ms - 1.0)
    assert timings.total_ms > 1.0
    assert server.metadata[0]["x-request-id"] == sample.request_id
    assert sample.request_id != client.sample(cloud, 1).request_id
    shapes = "indices=int64[4], points=float32[4, 3], attributes={v: float64[4, 2]}"
    assert repr(sample).startswith(f"Sample({shapes}, covering_radius=")


def test_server_info(client):
    info = client.server_info()
    assert (info.version, info.torch_version) == ("1.2.3", "2.13.0")
    assert [(d.name, d.description) for d in info.devices] == [("cpu", "A processor")]
    assert info.methods == ("farthest_point", "77")
    assert info.point_types == ("float32", "bfloat16")
    assert (info.limits.message_bytes, info.limits.request_points) == (64 << 20, 20)
    assert info.limits.request_clouds == 30


CLOUD = np.zeros((10, 3), np.float32)
PAIR = [CLOUD] * 2
SHAPE, COUNT, START = "points.shape", "sample_counts[0]", "start_indices[0]"

WRONG = {
    "one column short": ({"points": CLOUD[:, :2]}, SHAPE, r"\(N, 3\), got \(10, 2\)"),
    "one axis": ({"points": np.zeros(3)}, SHAPE, r"\(N, 3\), got \(3,\)"),
    "four axes": ({"points": np.zeros((1, 1, 10, 3))}, SHAPE, r"\(N, 3\)"),
    "no points": ({"points": CLOUD[:0]}, SHAPE, "at least one point"),
    "no points in a batch": ({"points": np.zeros((2, 0, 3))}, SHAPE, "at least one point"),
    "one empty cloud": ({"points": [CLOUD, CLOUD[:0]]}, SHAPE, r"points\[1\] .* at least one"),
    "one flat cloud": ({"points": [CLOUD, CLOUD[0]]}, SHAPE, r"points\[1\] must have shape"),
    "text": ({"points": "cloud.ply"}, "points", "farpoint.io.read_cloud"),
    "nothing": ({"points": None}, SHAPE, "points must"),
    "uneven rows": ({"points": [[0.0, 1, 2], [3.0, 4]]}, "points", "points must be an array"),
    "zero samples": ({"m": 0}, COUNT, "m must be from 1 to 10 .*cloud 0, got 0"),
    "too many samples": ({"m": 11}, COUNT, "from 1 to 10 for the 10 points of cloud 0, got 11"),
    "too many of the second": ({"points": PAIR, "m": [10, 11]}, "sample_counts[1]", "cloud 1"),
    "a fraction of a sample": ({"m": 1.5}, "sample_counts", "whole number.*got 1.5"),
    "no samples": ({"m": None}, "sample_counts", "give m"),
    "too few counts": ({"points": [CLOUD] * 3, "m": [1, 2]}, "sample_counts", r"\(3\), got 2"),
    "nested counts": ({"points": [CLOUD], "m": [[1]]}, "sample_counts", "m must be"),
    "a start below 0": ({"start": -1}, START, "start must be from 0 to 9 .*cloud 0, got -1"),
    "a start beyond the end": ({"start": 10}, START, "start must be from 0 to 9 .*cloud 0, got 10"),
    "too many starts": ({"start": [0, 0]}, "start_indices", r"\(1\), got 2"),
    "an unknown policy": ({"nonfinite": "skip"}, "nonfinite_policy", "got 'skip'"),
    "short attributes": ({"attributes": np.zeros(9)}, "attributes", r"\(10\), got shape \(9,\)"),
    "a short named one": (
        {"attributes": {"a": np.zeros(9)}},
        "attributes",
        r'attributes\["a"\] must have one row',
    ),
    "a scalar attribute": ({"attributes": 3}, "attributes", "one row per point"),
    "attributes of one cloud": (
        {"points": PAIR, "attributes": [np.zeros(10)]},
        "attributes",
        r"one entry per cloud \(2\), got 1",
    ),
    "no time": ({"timeout": 0}, "timeout", "above 0"),
    "endless time": ({"timeout": np.inf}, "timeout", "seconds, or None, got inf"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_argument(client, server, case):
    arguments, field, message = WRONG[case]
    with pytest.raises(InvalidArgumentError, match=message) as raised:
        client.sample(**({"points": CLOUD, "m": 2} | arguments))
    assert raised.value.field == field
    assert raised.value.request_id is None
    assert server.requests == []


def test_a_request_beyond_two_gigabytes_is_refused(client, server):
    huge = np.broadcast_to(np.float64(0), (90_000_000, 3))
    with pytest.raises(InvalidArgumentError, match="one message of") as raised:
        client.sample(huge, 1)
    assert raised.value.field == "points.data"
    assert server.requests == []


FOUR = np.zeros((4, 3), np.float32)


def answer(*rows: int, **fields) -> pb.SampleResponse:
    indices = tensor_pb2.Tensor(
        data_type=tensor_pb2.DATA_TYPE_INT32,
        shape=[len(rows)],
        data=np.array(rows, "<i4").tobytes(),
    )
    return pb.SampleResponse(indices=indices, lengths=[len(rows)], **fields)


def test_means_that_do_not_fit_are_an_error(client, server):
    means = tensor_pb2.Tensor(data_type=tensor_pb2.DATA_TYPE_FLOAT32, shape=[1, 3], data=bytes(12))
    server.answer = answer(0, 2, points=means)
    with pytest.raises(
        farpoint.InternalError, match=r"coordinates of shape \(1, 3\), expected \(2, 3\)"
    ):
        client.sample(FOUR, method=VoxelGrid(0.5, "mean"))


@pytest.mark.parametrize("rows", [(), (0, 1, 2, 3, 3)])
def test_more_voxels_than_points_are_an_error(client, server, rows):
    server.answer = answer(*rows)
    with pytest.raises(farpoint.InternalError, match="indices"):
        client.sample(FOUR, method=VoxelGrid(0.5))


WRONG_METHODS: dict[str, tuple[Callable[[farpoint.Client], object], str, str]] = {
    "no size": (lambda _: VoxelGrid(0), "voxel_grid.voxel_size", "above 0, got 0"),
    "an endless size": (lambda _: VoxelGrid(np.inf), "voxel_grid.voxel_size", "got inf"),
    "a selection": (lambda _: VoxelGrid(1, "last"), "voxel_grid.selection", "got 'last'"),
    "an origin": (lambda _: VoxelGrid(1, origin=(0, 0)), "voxel_grid.origin", r"got \(0, 0\)"),
    "a seed": (lambda _: RandomSampling(-1), "seeds", "to 2.64 - 1, got -1"),
    "a large seed": (lambda _: RandomSampling(2**64), "seeds", "to 2.64 - 1, got 18446744"),
    "half a seed": (lambda _: RandomSampling([1, 0.5]), "seeds", "whole number.*got 0.5"),
    "a huge size": (lambda _: VoxelGrid(10**400), "voxel_grid.voxel_size", "got 1000"),
    "a huge origin": (lambda _: VoxelGrid(1, origin=(10**400, 0, 0)), "voxel_grid.origin", "1000"),
    "a radius": (lambda _: PoissonDisk(-1.0), "covering_radius", "got -1.0"),
    "a huge radius": (lambda c: c.sample(FOUR, radius=10**400), "covering_radius", "got 1000"),
    "a name": (lambda c: c.sample(FOUR, 2, method="random"), "method", "got 'random'"),
    "m of a grid": (lambda c: c.sample(FOUR, 2, method=VoxelGrid(1)), "sample_counts", "got 2"),
    "no m": (lambda c: c.sample(FOUR, method=RandomSampling()), "sample_counts", "give m"),
    "a start": (
        lambda c: c.sample(FOUR, 2, start=1, method=RandomSampling()),
        "start_indices",
        "start must be 0 with RandomSampling, got 1",
    ),
    "two radii": (
        lambda c: c.sample(FOUR, radius=1, method=PoissonDisk(1)),
        "covering_radius",
        "radius must be None with PoissonDisk, got 1",
    ),
    "seeds of other clouds": (
        lambda c: c.sample([FOUR] * 3, 2, method=RandomSampling([1, 2])),
        "seeds",
        r"one per cloud \(3\), got \[1, 2\]",
    ),
    "in a stream": (
        lambda c: c.sample_stream([FOUR], 2, method=VoxelGrid(1)),
        "sample_counts",
        "got 2",
    ),
}


@pytest.mark.parametrize("case", WRONG_METHODS)
def test_a_wrong_argument_is_named(client, server, case):
    call, field, message = WRONG_METHODS[case]
    with pytest.raises(InvalidArgumentError, match=message) as raised:
        call(client)
    assert raised.value.field == field
    assert not server.requests
