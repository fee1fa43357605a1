"""furthest_point_sample_ragged against one call per cloud."""

import pytest
import torch
from tests.support.clouds import ten_scans
from torch import Tensor

from farpoint_ops import farthest_point_sample, farthest_point_sample_ragged, reference

SIZES = [1, 70, 3, 1500, 40]
OFFSETS = [0, 1, 71, 74, 1574, 1614]


@pytest.fixture
def flat(device: torch.device) -> Tensor:
    return torch.randn(OFFSETS[-1], 3, generator=torch.Generator().manual_seed(0)).to(device)


def test_equals_the_clouds_one_by_one(flat: Tensor) -> None:
    samples, start = [1, 33, 3, 200, 40], [0, 69, 1, 7, 0]
    indices, distances = farthest_point_sample_ragged(
        flat, OFFSETS, samples, start=start, return_distances=True
    )
    assert indices.dtype == torch.int32
    slot = 0
    for b, m in enumerate(samples):
        cloud = flat[OFFSETS[b] : OFFSETS[b + 1]][None]
        own, radii = farthest_point_sample(cloud, m, start=start[b], return_distances=True)
        assert torch.equal(indices[slot : slot + m], own[0] + OFFSETS[b])
        assert torch.equal(distances[slot : slot + m], radii[0])
        slot += m
    assert slot == len(indices) == len(distances)


def test_equals_the_reference_on_real_scans(device: torch.device) -> None:
    scans = [torch.from_numpy(scan[:, :3].copy()) for scan in ten_scans()]
    offsets = torch.tensor([0, *map(len, scans)]).cumsum(0)
    samples = [10 + 5 * b for b in range(10)]
    actual = farthest_point_sample_ragged(
        torch.cat(scans).to(device), offsets, samples, return_distances=True
    )
    expected = reference.furthest_point_sample_ragged(
        torch.cat(scans), offsets.tolist(), samples, [0] * 10
    )
    assert torch.equal(actual[0].cpu(), expected[0])
    assert torch.equal(actual[1].cpu(), expected[1])


def test_one_number_serves_every_cloud(flat: Tensor) -> None:
    indices = farthest_point_sample_ragged(flat, [0, 71, 74, 1614], 3, start=2)
    assert indices.tolist()[::3] == [2, 73, 76]
    assert indices.shape == (9,)


def test_offsets_samples_and_start_may_be_tensors_anywhere(flat: Tensor) -> None:
    expected = farthest_point_sample_ragged(flat, OFFSETS, [1, 2, 3, 4, 5], start=[0, 1, 2, 3, 4])
    for where in ("cpu", flat.device):
        actual = farthest_point_sample_ragged(
            flat,
            torch.tensor(OFFSETS, device=where),
            torch.tensor([1, 2, 3, 4, 5], device=where),
            start=torch.arange(5, dtype=torch.int32, device=where),
        )
        assert torch.equal(actual, expected)


def test_clouds_do_not_see_each_other(flat: Tensor) -> None:
    expected = farthest_point_sample_ragged(flat, OFFSETS, SIZES)[71:74]
    flat[:71], flat[74:] = torch.nan, torch.inf
    assert torch.equal(farthest_point_sample_ragged(flat, OFFSETS, SIZES)[71:74], expected)


def test_no_clouds_have_no_samples(device: torch.device) -> None:
    indices, distances = farthest_point_sample_ragged(
        torch.empty(0, 3, device=device), [0], 4, return_distances=True
    )
    assert indices.shape == distances.shape == (0,)


def test_strided_input_is_read_as_it_is(flat: Tensor) -> None:
    wide = torch.cat([flat, flat], 1)
    expected = farthest_point_sample_ragged(flat, OFFSETS, 1)
    assert torch.equal(farthest_point_sample_ragged(wide[:, :3], OFFSETS, 1), expected)
