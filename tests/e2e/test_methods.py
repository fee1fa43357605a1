"""Every method and a radius: the service, both clients, the command, and the ops."""

import numpy as np
import pytest
import torch
from tests.support.clouds import ten_scans
from tests.support.command import run_farpoint

import farpoint
import farpoint_ops
from farpoint import PoissonDisk, RandomSampling, VoxelGrid

RANDOM = np.random.default_rng(3)
UTM = np.array([448_262.3, 5_411_932.7, 120.1])


def cloud(points: int, dtype: str = "float32") -> np.ndarray:
    values = RANDOM.normal(size=(points, 3)) * 3
    return (values + UTM if dtype == "float64" else values).astype(dtype)


def voxel_rows(points: np.ndarray, size: float, **options: object) -> list[int]:
    """Of the op, whose own tests have the contract."""
    rows, _ = farpoint_ops.voxel_grid_sample(torch.from_numpy(points), size, **options)
    return list(rows.tolist())


def random_rows(points: np.ndarray, m: int, seed: int) -> list[int]:
    (rows,) = farpoint_ops.random_sample(torch.from_numpy(points)[None], m, seed=seed).tolist()
    return list(rows)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("select", ["first", "nearest_mean"])
def test_a_voxel_grid_is_that_of_the_ops(client, dtype, select):
    points = cloud(700, dtype)
    origin = (0.3, -0.2, 0.1)
    sample = client.sample(points, method=VoxelGrid(0.9, select, origin))
    assert sample.indices.tolist() == voxel_rows(points, 0.9, origin=origin, select=select)
    np.testing.assert_array_equal(sample.points, points[sample.indices])
    assert sample.origin is None
    assert sample.distances.shape == (0,)
    assert "covering" not in repr(sample)
    with pytest.raises(ValueError, match="no covering distances"):
        _ = sample.covering_radius


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_means_stand_for_their_voxels(client, dtype):
    points = cloud(700, dtype)
    sample = client.sample(points, method=VoxelGrid(0.9, "mean"), attributes=np.arange(700))
    wide = points if dtype == "float64" else points.astype(np.float32)
    means, _ = farpoint_ops.voxel_grid_mean(torch.from_numpy(wide), 0.9)
    np.testing.assert_array_equal(sample.points, means.numpy())
    assert sample.points.dtype == wide.dtype
    assert sample.indices.tolist() == voxel_rows(points, 0.9)
    assert sample.attributes.tolist() == sample.indices.tolist()


def test_rows_that_are_not_finite_are_refused_or_left_out(client):
    points = cloud(120)
    points[::3] = [np.nan, 0, np.inf]
    with pytest.raises(
        farpoint.InvalidArgumentError, match="40 rows with NaN, infinity or values beyond float32"
    ):
        client.sample(points, 80, method=RandomSampling(4))
    sample = client.sample(points, 80, nonfinite="ignore", method=RandomSampling(4))
    assert sample.indices.tolist() == random_rows(points, 80, 4)
    grid = client.sample(points, nonfinite="ignore", method=VoxelGrid(1.5))
    assert grid.indices.tolist() == voxel_rows(points, 1.5)


def test_random_rows_are_those_of_the_ops(client):
    clouds, counts, seeds = [cloud(300), cloud(90), cloud(5)], [40, 90, 1], [0, 2**64 - 1, 12]
    samples = client.sample(clouds, counts, method=RandomSampling(seeds))
    for points, m, seed, sample in zip(clouds, counts, seeds, samples, strict=True):
        assert sample.indices.tolist() == random_rows(points, m, seed)
    (one,) = client.sample(clouds[:1], 12, method=RandomSampling(0))
    assert one.indices.tolist() == samples[0].indices[:12].tolist()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_poisson_disks_are_a_sample_to_the_radius(client, dtype):
    points = cloud(400, dtype)
    disks, covered = (
        client.sample(points, method=PoissonDisk(1.1)),
        client.sample(points, radius=1.1),
    )
    assert disks.indices.tolist() == covered.indices.tolist()
    assert disks.distances.tolist() == covered.distances.tolist()
    chosen = points[disks.indices].astype(np.float64)
    apart = np.linalg.norm(chosen[:, None] - chosen, axis=2) + np.eye(len(chosen)) * 9
    assert apart.min() > 1.1 - 1e-5
    assert len(client.sample(points, 3, start=7, method=PoissonDisk(1.1))) == 3


def assert_begins(short: farpoint.Sample, whole: farpoint.Sample, radius: float) -> None:
    """`short` is the beginning of `whole` that covers the cloud to the radius first."""
    count = int((whole.distances <= np.float32(radius)).argmax()) + 1
    assert short.indices.tolist() == whole.indices[:count].tolist()
    assert short.distances.tolist() == whole.distances[:count].tolist()
    assert short.covering_radius <= np.float32(radius)


def test_each_cloud_of_a_batch_ends_at_the_radius(client):
    scans = [scan[:3000, :3].astype(np.float32) for scan in ten_scans()]
    wholes = client.sample(scans, [len(scan) for scan in scans])
    for radius in (0.0, 2.0, float("inf")):
        shorts = client.sample(scans, radius=radius)
        for short, whole in zip(shorts, wholes, strict=True):
            assert_begins(short, whole, radius)


def run_command(server, source, target, options):
    words = ["sample", "--server", server.address, source, "-o", target, *options.split()]
    return run_farpoint(*words)


@pytest.mark.parametrize(
    ("options", "arguments"),
    [
        (
            "--method voxel-grid --voxel-size 1.2 --select nearest-mean",
            {"method": VoxelGrid(1.2, "nearest_mean")},
        ),
        ("--method random -m 10% --seed 5", {"m": 30, "method": RandomSampling(5)}),
        ("--method poisson-disk --radius 2", {"method": PoissonDisk(2.0)}),
        ("--radius 2", {"radius": 2.0}),
    ],
)
def test_the_command(server, client, tmp_path, options, arguments):
    points, source, target = cloud(300), tmp_path / "cloud.npy", tmp_path / "out.npy"
    np.save(source, points)
    done = run_command(server, source, target, options)
    assert done.exit_code == 0, done.output
    assert ("covering radius" in done.output) == ("radius" in options)
    expected = client.sample(points, **arguments)
    np.testing.assert_array_equal(np.load(target), points[expected.indices])


M = 50


def local_rows(points: np.ndarray, start: int = 0) -> np.ndarray:
    """Of the op, for coordinates that are exact in float32."""
    cloud = torch.from_numpy(points.astype(np.float32))[None]
    return farpoint_ops.farthest_point_sample(cloud, M, start=start)[0].long().numpy()


@pytest.mark.parametrize("dtype", ["f2", "f4", ">f4", "f8", "i2", "i4", "u8"])
def test_every_dtype(client, dtype):
    points = np.random.default_rng(0).uniform(0, 30_000, (4000, 3)).astype(dtype)
    origin = 0 if dtype in ("f2", "f4", ">f4", "i2") else points[0].astype(np.float64)
    expected = local_rows(points.astype(np.float64) - origin, start=17)
    assert np.array_equal(client.sample(points, M, start=17).indices, expected)
