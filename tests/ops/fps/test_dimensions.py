"""Sampling in 1 to 64 dimensions, in float32 and float64, against the reference."""

import threading
import time
from collections.abc import Callable

import pytest
import torch
from tests.support.tensors import assert_same
from torch import Tensor

from farpoint_ops import farthest_point_sample, farthest_point_sample_ragged, reference

DIMENSIONS = [1, 2, 4, 5, 7, 8, 9, 16, 17, 31, 64]
SPATIAL = [1, 2, 3]
cpu_simd = torch.ops.farpoint._cpu_simd


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(3)


def random(n: int, d: int) -> Tensor:
    return torch.randn(n, d, generator=generator(), dtype=torch.float64)


def lattice(n: int, d: int) -> Tensor:
    """Ties everywhere, and duplicates where there are few dimensions."""
    return torch.randint(0, 3, (n, d), generator=generator()).double()


def equal_points(n: int, d: int) -> Tensor:
    return torch.full((n, d), 0.3, dtype=torch.float64)


def holes(n: int, d: int) -> Tensor:
    cloud = random(n, d)
    cloud[::7, d - 1] = torch.nan
    cloud[3::11, 0] = torch.inf
    return cloud


def huge(n: int, d: int) -> Tensor:
    """Squares that overflow float32, and far from each other in float64."""
    return random(n, d) * 1e20


def far_away(n: int, d: int) -> Tensor:
    """Map coordinates, which float32 merges."""
    return random(n, d) + 5_403_550.0


CLOUDS = [random, lattice, equal_points, holes, huge, far_away]


@pytest.mark.parametrize("make", CLOUDS, ids=lambda make: make.__name__)
@pytest.mark.parametrize("d", DIMENSIONS)
def test_equals_the_reference(
    device: torch.device, make: Callable[[int, int], Tensor], d: int
) -> None:
    cloud = make(203, d).float()[None]
    actual = farthest_point_sample(cloud.to(device), 120, start=5, return_distances=True)
    assert_same(actual, reference.furthest_point_sample(cloud, 120, torch.tensor([5])))


@pytest.mark.parametrize("make", CLOUDS, ids=lambda make: make.__name__)
@pytest.mark.parametrize("d", [*SPATIAL, 4, 9, 64])
def test_float64_equals_the_reference(
    device: torch.device, make: Callable[[int, int], Tensor], d: int
) -> None:
    cloud = make(203, d)[None]
    actual = farthest_point_sample(cloud.to(device), 120, start=5, return_distances=True)
    assert actual[1].dtype == torch.float64
    assert_same(actual, reference.furthest_point_sample(cloud, 120, torch.tensor([5])))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("d", DIMENSIONS)
def test_every_point_once_and_each_sample_a_prefix(
    device: torch.device, d: int, dtype: torch.dtype
) -> None:
    cloud = holes(150, d).to(device, dtype)[None]
    cloud[0, 40:60] = cloud[0, :1]
    whole, distances = farthest_point_sample(cloud, 150, return_distances=True)
    assert whole[0].sort().values.tolist() == list(range(150))
    finite = cloud[0].isfinite().all(-1)
    assert finite[whole[0, : int(finite.sum())].long()].all()
    for m in (1, 2, 50, 149):
        some = farthest_point_sample(cloud, m, return_distances=True)
        assert_same(some, (whole[:, :m], distances[:, :m]))
    assert torch.equal(farthest_point_sample(cloud, 150), whole)


@pytest.mark.parametrize("d", [1, 2])
def test_missing_dimensions_are_zero(device: torch.device, d: int) -> None:
    flat = random(4000, d).float().to(device)[None]
    in_space = torch.nn.functional.pad(flat, (0, 3 - d))
    actual = farthest_point_sample(flat, 700, return_distances=True)
    assert_same(actual, farthest_point_sample(in_space, 700, return_distances=True))


@pytest.mark.parametrize("n", [1, 2, 15, 16, 17, 31, 33])
def test_sizes_around_a_block(device: torch.device, n: int) -> None:
    cloud = random(n, 6)[None]
    for dtype in (torch.float32, torch.float64):
        actual = farthest_point_sample(cloud.to(device, dtype), n, return_distances=True)
        assert_same(actual, reference.furthest_point_sample(cloud.to(dtype), n))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("d", [2, 3, 12])
def test_lengths_starts_and_radii(device: torch.device, d: int, dtype: torch.dtype) -> None:
    clouds = torch.stack([random(90, d), lattice(90, d)]).to(dtype)
    starts, lengths = torch.tensor([3, 20]), torch.tensor([90, 41])
    given = clouds.clone()
    given[1, 41:] = torch.nan
    actual = farthest_point_sample(
        given.to(device), 41, start=starts, lengths=lengths, return_distances=True
    )
    assert_same(actual, reference.furthest_point_sample(clouds, 41, starts, lengths))
    radii = [float(actual[1][0, 9]), 0.0]
    ends = farthest_point_sample(
        clouds.to(device), 90, start=starts, radius=radii, return_distances=True
    )
    flat = reference.furthest_point_sample_ragged(
        clouds.flatten(0, 1), [0, 90, 180], [90, 90], [3, 20], radii
    )
    assert ends[2].tolist() == flat[2].tolist()
    assert ends[2][1] == 10
    local = torch.cat([flat[0][:10], flat[0][10:] - 90])
    assert_same(ends[:2], (local, flat[1]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("d", [1, 3, 20])
def test_a_ragged_batch(device: torch.device, d: int, dtype: torch.dtype) -> None:
    cloud = holes(160, d).to(dtype)
    actual = farthest_point_sample_ragged(
        cloud.to(device), [0, 7, 160], [7, 90], start=[2, 30], return_distances=True
    )
    expected = reference.furthest_point_sample_ragged(cloud, [0, 7, 160], [7, 90], [2, 30])
    assert_same(actual, expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_every_instruction_set_and_number_of_threads_gives_the_same_bits(
    dtype: torch.dtype,
) -> None:
    cloud = torch.cat([random(9000, 24), lattice(9001, 24)]).to(dtype)[None]
    before = torch.get_num_threads()
    expected = farthest_point_sample(cloud, 60, return_distances=True)
    try:
        for level in ("plain", "avx2", "avx512"):
            cpu_simd(level)
            for threads in (1, 2, 4):
                torch.set_num_threads(threads)
                assert_same(farthest_point_sample(cloud, 60, return_distances=True), expected)
    finally:
        cpu_simd("")
        torch.set_num_threads(before)


def test_a_flag_ends_it() -> None:
    cloud = random(60_000, 16)
    flags = torch.zeros(1, dtype=torch.int32)
    timer = threading.Timer(0.1, lambda: flags.fill_(1))
    timer.start()
    began = time.perf_counter()
    bounds = torch.tensor([0, 60_000])
    torch.ops.farpoint._furthest_point_sample_cancellable(
        cloud, bounds, bounds, None, 60_000, flags
    )
    assert time.perf_counter() - began < 5  # 60 without a flag
    timer.join()
