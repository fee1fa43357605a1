"""Exact furthest point sampling against the reference, the same on every device."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.clouds import street_scan, whole_street_scan
from tests.support.tensors import assert_same
from torch import Tensor

from farpoint_ops import farthest_point_sample, reference


def test_equals_the_reference(cloud: Tensor) -> None:
    m = min(len(cloud), 200)
    actual = farthest_point_sample(cloud[None], m, return_distances=True)
    assert actual[0].dtype == torch.int32
    assert actual[0].shape == actual[1].shape == (1, m)
    assert_same(actual, reference.furthest_point_sample(cloud.cpu()[None], m))


def test_indices_are_distinct_up_to_every_point(cloud: Tensor) -> None:
    indices = farthest_point_sample(cloud[None], len(cloud))
    assert indices[0].sort().values.tolist() == list(range(len(cloud)))


def test_a_smaller_sample_is_a_prefix_of_a_larger_one(cloud: Tensor) -> None:
    large, large_distances = farthest_point_sample(cloud[None], len(cloud), return_distances=True)
    for m in {1, 2, len(cloud) // 2}:
        small, distances = farthest_point_sample(cloud[None], m, return_distances=True)
        assert torch.equal(small, large[:, :m])
        assert torch.equal(distances, large_distances[:, :m])


def test_asking_for_distances_changes_no_index(cloud: Tensor) -> None:
    indices, _ = farthest_point_sample(cloud[None], len(cloud), return_distances=True)
    assert torch.equal(farthest_point_sample(cloud[None], len(cloud)), indices)


def test_finite_points_come_first_and_the_rest_in_order(cloud: Tensor) -> None:
    indices = farthest_point_sample(cloud[None], len(cloud))[0].long()
    finite = cloud.isfinite().all(-1)
    count = int(finite.sum())
    assert finite[indices[:count]].all()
    assert torch.equal(indices[count:], (~finite).nonzero()[:, 0])


def test_distances_are_covering_radii(device: torch.device) -> None:
    cloud = torch.rand(1, 600, 3, generator=torch.Generator().manual_seed(1)).to(device)
    indices, distances = farthest_point_sample(cloud, 600, return_distances=True)
    apart = torch.cdist(cloud[0].double(), cloud[0, indices[0].long()].double())
    radii = apart.cummin(1).values.amax(0)
    torch.testing.assert_close(distances[0].double(), radii, rtol=1e-6, atol=0)
    assert distances[0, -1] == 0


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_halves_are_widened_before_any_arithmetic(device: torch.device, dtype: torch.dtype) -> None:
    """In float16 the square of these distances would be infinite."""
    generator = torch.Generator().manual_seed(2)
    cloud = (30_000 * torch.randn(2, 500, 3, generator=generator)).clamp(-6e4, 6e4).to(dtype)
    narrow = farthest_point_sample(cloud.to(device), 300, return_distances=True)
    wide = farthest_point_sample(cloud.float().to(device), 300, return_distances=True)
    assert_same(narrow, wide)
    assert narrow[1].isfinite().all()


@pytest.mark.parametrize("start", [3, [3, 3, 3], torch.tensor([3, 3, 3])])
def test_start_is_the_first_sample(device: torch.device, start: int | list[int] | Tensor) -> None:
    clouds = torch.randn(3, 50, 3, generator=torch.Generator().manual_seed(3)).to(device)
    indices = farthest_point_sample(clouds, 20, start=start, return_distances=True)
    assert_same(indices, reference.furthest_point_sample(clouds.cpu(), 20, torch.tensor([3] * 3)))
    assert indices[0][:, 0].tolist() == [3, 3, 3]


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_each_cloud_has_its_own_start_and_length(device: torch.device, dtype: torch.dtype) -> None:
    clouds = torch.randn(3, 64, 3, generator=torch.Generator().manual_seed(4)).to(device)
    start = torch.tensor([0, 9, 19], dtype=dtype, device=device)
    lengths = torch.tensor([64, 10, 20], dtype=dtype, device=device)
    actual = farthest_point_sample(clouds, 10, start=start, lengths=lengths, return_distances=True)
    assert_same(actual, reference.furthest_point_sample(clouds.cpu(), 10, start, lengths))


def test_padding_is_never_read(device: torch.device) -> None:
    clouds = torch.randn(2, 40, 3, generator=torch.Generator().manual_seed(5))
    expected = farthest_point_sample(clouds[:, :25].to(device), 25, return_distances=True)
    for padding in (torch.nan, torch.inf, 1e30):
        clouds[:, 25:] = padding
        padded = clouds.to(device)
        assert_same(
            farthest_point_sample(padded, 25, lengths=[25, 25], return_distances=True), expected
        )


def test_a_start_that_is_not_finite_falls_back_to_the_first_finite_row(
    device: torch.device,
) -> None:
    cloud = torch.arange(12.0, device=device).reshape(1, 4, 3)
    cloud[0, 0, 0] = torch.nan
    cloud[0, 2, 1] = torch.inf
    for start in (0, 2):
        assert farthest_point_sample(cloud, 4, start=start).tolist() == [[1, 3, 0, 2]]


def test_a_cloud_without_a_finite_point_is_taken_from_start_then_in_order(
    device: torch.device,
) -> None:
    cloud = torch.full((1, 4, 3), torch.nan, device=device)
    indices, distances = farthest_point_sample(cloud, 4, start=2, return_distances=True)
    assert indices.tolist() == [[2, 0, 1, 3]]
    assert distances.tolist() == [[0, 0, 0, 0]]


def test_strided_input_is_read_as_it_is(device: torch.device) -> None:
    rows = torch.randn(2, 200, 4, generator=torch.Generator().manual_seed(6)).to(device)
    expected = farthest_point_sample(rows[..., :3].contiguous(), 50)
    assert torch.equal(farthest_point_sample(rows[..., :3], 50), expected)
    flipped = rows[..., :3].transpose(1, 2).contiguous().transpose(1, 2)
    assert torch.equal(farthest_point_sample(flipped, 50), expected)


def test_an_empty_batch_has_no_samples(device: torch.device) -> None:
    indices, distances = farthest_point_sample(
        torch.empty(0, 8, 3, device=device), 5, return_distances=True
    )
    assert indices.shape == distances.shape == (0, 5)


@pytest.mark.parametrize("scan_of", [street_scan, whole_street_scan])
def test_a_street_scan(device: torch.device, scan_of: Callable[[], np.ndarray]) -> None:
    """Rows of 16 bytes, of which the op sees the first 12."""
    scan = torch.from_numpy(scan_of())[None, :, :3]
    actual = farthest_point_sample(scan.to(device), 48, start=1000, return_distances=True)
    assert_same(actual, reference.furthest_point_sample(scan, 48, torch.tensor([1000])))


coordinate = st.sampled_from([0.0, -0.0, 1.0, 2.0, -1.0, 0.1, 1e-30, 3e38, np.nan, np.inf, -np.inf])


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(st.tuples(coordinate, coordinate, coordinate), min_size=1, max_size=20),
    start=st.integers(0, 19),
)
def test_any_small_cloud_equals_the_reference(
    rows: list[tuple[float, float, float]], start: int
) -> None:
    cloud, first = torch.tensor([rows]), start % len(rows)
    actual = farthest_point_sample(cloud, len(rows), start=first, return_distances=True)
    assert_same(actual, reference.furthest_point_sample(cloud, len(rows), torch.tensor([first])))
