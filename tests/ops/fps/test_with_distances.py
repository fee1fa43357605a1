"""Sampling by a matrix of distances: exact, the same on every device."""

import pytest
import torch
from tests.support import reference
from tests.support.tensors import assert_same
from torch import Tensor

from farpoint_ops import farthest_point_sample, farthest_point_sample_with_distances


def matrices(dtype: torch.dtype, n: int = 90) -> Tensor:
    """Two (2, n, n): distances in 80 dimensions; small integers that tie and are not symmetric."""
    generator = torch.Generator().manual_seed(4)
    points = torch.randn(n, 80, generator=generator)
    integers = torch.randint(0, 5, (n, n), generator=generator)
    return torch.stack([torch.cdist(points, points), integers.float()]).to(dtype)


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16], ids=str
)
@pytest.mark.parametrize("n", [1, 2, 15, 16, 17, 90])
def test_equals_the_reference(device: torch.device, dtype: torch.dtype, n: int) -> None:
    distances = matrices(dtype, n)
    for m in {1, (n + 1) // 2, n}:
        actual = farthest_point_sample_with_distances(
            distances.to(device), m, return_distances=True
        )
        assert_same(actual, reference.furthest_point_sample_with_distances(distances, m))


def test_no_index_comes_twice_and_each_sample_is_a_prefix(device: torch.device) -> None:
    distances = matrices(torch.float32).to(device)
    distances[0, 5] = 0
    distances[1].fill_diagonal_(9)
    whole = farthest_point_sample_with_distances(distances, 90)
    assert (whole.sort(-1).values.cpu() == torch.arange(90)).all()
    for m in (1, 7, 89):
        assert torch.equal(farthest_point_sample_with_distances(distances, m), whole[:, :m])


def test_starts_lengths_and_what_is_no_distance(device: torch.device) -> None:
    distances = matrices(torch.float64)
    distances[0, :, 8] = torch.nan
    distances[0, 3, 4] = torch.inf
    starts, lengths = torch.tensor([8, 20]), torch.tensor([90, 31])
    given = distances.clone()
    given[1, 31:] = torch.inf
    given[1, :, 31:] = torch.inf
    actual = farthest_point_sample_with_distances(
        given.to(device), 31, start=starts, lengths=lengths, return_distances=True
    )
    expected = reference.furthest_point_sample_with_distances(distances, 31, starts, lengths)
    assert_same(actual, expected)


def test_samples_what_coordinates_sample(device: torch.device) -> None:
    """Integers: their squared distances are exact."""
    points = torch.randint(0, 50, (1, 200, 7), generator=torch.Generator().manual_seed(1))
    squared = (points[:, :, None] - points[:, None]).square().sum(-1)
    expected = farthest_point_sample(points.float().to(device), 150)
    actual = farthest_point_sample_with_distances(squared.float().to(device), 150)
    assert torch.equal(actual, expected)
