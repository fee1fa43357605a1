"""Sampling to a radius, and of points that are not finite."""

import pytest
import torch
from tests.support import reference
from tests.support.tensors import assert_same
from torch import Tensor

from farpoint_ops import (
    farthest_point_sample,
    farthest_point_sample_ragged,
    poisson_disk_sample,
)
from farpoint_ops import farthest_point_sample_ragged as sample_ragged


def radii_to_try(cloud: Tensor) -> list[float]:
    """Covering radii that occur, numbers just below them, none at all and enough for one point."""
    _, distances = farthest_point_sample(cloud[None], len(cloud), return_distances=True)
    occurring = distances[0, [0, len(cloud) // 50, len(cloud) // 7, len(cloud) // 2]].cpu()
    below = occurring.nextafter(torch.tensor(0.0))
    return [0.0, *occurring.tolist(), *below.tolist(), torch.inf]


def test_is_the_prefix_that_reaches_it_first(cloud: Tensor) -> None:
    """Of the sample of every point, on every path through the kernels."""
    whole, distances = farthest_point_sample(cloud[None], len(cloud), return_distances=True)
    for radius in radii_to_try(cloud):
        count = int((distances[0] <= radius).int().argmax()) + 1
        actual = farthest_point_sample(
            cloud[None], len(cloud), radius=radius, return_distances=True
        )
        bounds = torch.tensor([0, count])
        assert_same(actual, (whole[0, :count], distances[0, :count], bounds))
        for m in (1, max(1, count - 1), count):
            fewer, _ = farthest_point_sample(cloud[None], m, radius=radius)
            assert torch.equal(fewer, whole[0, : min(m, count)])


def test_ragged(device: torch.device) -> None:
    xyz = torch.randn(90, 3, generator=torch.Generator().manual_seed(5)).to(device)
    bounds, counts, start, radii = [0, 40, 41, 90], [20, 1, 49], [7, 0, 2], [0.9, 0.0, 0.6]
    actual = farthest_point_sample_ragged(
        xyz, bounds, counts, start=start, radius=radii, return_distances=True
    )
    expected = reference.furthest_point_sample_ragged(xyz.cpu(), bounds, counts, start, radii)
    assert_same(actual, expected)
    assert expected[2].tolist()[-1] < sum(counts)
    rows, offsets = farthest_point_sample_ragged(xyz, bounds, counts, start=start, radius=radii)
    assert torch.equal(rows, actual[0])
    assert torch.equal(offsets, actual[2])


def test_without_a_number_the_radius_alone_ends_it(device: torch.device) -> None:
    clouds = torch.rand(3, 70, 3, generator=torch.Generator().manual_seed(8)).to(device)
    actual = farthest_point_sample(clouds, radius=0.2, start=4, return_distances=True)
    expected = farthest_point_sample(clouds, 70, radius=0.2, start=4, return_distances=True)
    assert_same(actual, expected)
    lengths, radii = [70, 5, 33], [0.2, 0.0, 0.3]
    alone = [
        farthest_point_sample(clouds[b : b + 1, :n], n, radius=r, start=4, return_distances=True)
        for b, (n, r) in enumerate(zip(lengths, radii, strict=True))
    ]
    rows, distances = (torch.cat([each[i] for each in alone]) for i in range(2))
    offsets = torch.tensor([0, *(len(each[0]) for each in alone)]).cumsum(0)
    for each in (radii, torch.tensor(radii).double()):
        ragged = farthest_point_sample(
            clouds, radius=each, start=4, lengths=lengths, return_distances=True
        )
        assert_same(ragged, (rows, distances, offsets))


def test_padded_samples_are_the_ragged_ones(device: torch.device) -> None:
    """-1 and 0 behind them, and how many there are."""
    clouds = torch.rand(2, 50, 3, generator=torch.Generator().manual_seed(9)).to(device)
    rows, distances, counts = farthest_point_sample(
        clouds, radius=0.4, max_samples=40, return_distances=True
    )
    ragged = farthest_point_sample(clouds, 40, radius=0.4, return_distances=True)
    assert torch.equal(rows[rows >= 0], ragged[0])
    assert torch.equal(distances[rows >= 0], ragged[1])
    assert not distances[rows < 0].any()
    assert torch.equal(counts, ragged[2].diff())
    few, five = poisson_disk_sample(clouds, 0.4, max_samples=5)
    assert torch.equal(few, rows[:, :5])
    assert five.tolist() == [5, 5]


def test_a_cloud_with_nothing_finite_is_one_sample(device: torch.device) -> None:
    cloud = torch.full((1, 5, 3), torch.nan, device=device)
    rows, distances, offsets = farthest_point_sample(
        cloud, 5, start=2, radius=0.0, return_distances=True
    )
    assert (rows.tolist(), distances.tolist(), offsets.tolist()) == ([2], [0.0], [0, 1])


@pytest.fixture
def clouds(device: torch.device) -> Tensor:
    """(2, 40, 3) with 5 rows of the second cloud not finite."""
    clouds = torch.rand(2, 40, 3, generator=torch.Generator().manual_seed(1))
    clouds[1, [3, 9], 0] = torch.nan
    clouds[1, [0, 20, 39], 2] = torch.tensor([torch.inf, -torch.inf, torch.inf])
    return clouds.to(device)


def ragged(clouds: Tensor) -> tuple[Tensor, list[int]]:
    return clouds.flatten(0, 1), [0, 40, 80]


def test_ignore_is_the_sample_of_the_others(clouds: Tensor) -> None:
    rows = farthest_point_sample(clouds, 35, nonfinite="ignore")
    assert torch.equal(rows, farthest_point_sample(clouds, 35))
    assert clouds[1, rows[1].long()].isfinite().all()
    flat = sample_ragged(*ragged(clouds), 35, nonfinite="ignore")
    assert torch.equal(flat, torch.cat([rows[0], rows[1] + 40]))


def test_ignore_needs_enough_of_the_others(clouds: Tensor) -> None:
    message = "num_samples: expected at most 35, the finite points of cloud 1, got 36"
    for sample, arguments in ((farthest_point_sample, [clouds]), (sample_ragged, ragged(clouds))):
        with pytest.raises(ValueError, match=message):
            sample(*arguments, 36, nonfinite="ignore")
    message = "num_samples: expected at most 7, the finite points of cloud 1, got 8"
    with pytest.raises(ValueError, match=message):
        farthest_point_sample(clouds, 8, nonfinite="ignore", lengths=[40, 9])
    with pytest.raises(ValueError, match="the finite points of cloud 0, got 1"):
        farthest_point_sample(clouds[1:, :1], 1, nonfinite="ignore", radius=9.0)


def test_ignore_to_a_radius(clouds: Tensor) -> None:
    rows, offsets = farthest_point_sample(clouds, 40, nonfinite="ignore", radius=0.0)
    assert offsets.tolist() == [0, 40, 75]
    assert clouds[1, rows[40:].long()].isfinite().all()
    clouds[0] = torch.nan
    message = "num_samples: expected at most 0, the finite points of cloud 1, got 1"
    with pytest.raises(ValueError, match=message):
        farthest_point_sample(clouds.flip(0), 40, nonfinite="ignore", radius=0.5)
    with pytest.raises(ValueError, match=message):
        sample_ragged(*ragged(clouds.flip(0)), 40, nonfinite="ignore", radius=0.5)


def test_reject_names_the_first_row(clouds: Tensor) -> None:
    message = (
        r"xyz: expected finite .* got 5 rows with NaN or infinity, the first at row 0 of cloud 1"
    )
    with pytest.raises(ValueError, match=message):
        farthest_point_sample(clouds, 3, nonfinite="reject")
    with pytest.raises(ValueError, match="5 rows with NaN or infinity, the first at row 40"):
        sample_ragged(*ragged(clouds), 2, nonfinite="reject")
    rows = farthest_point_sample(clouds[:1], 3, nonfinite="reject")
    assert torch.equal(rows, farthest_point_sample(clouds[:1], 3))


def test_reject_reads_no_padding(clouds: Tensor) -> None:
    padded = clouds[1:, 10:30]  # row 10 is not finite
    rows = farthest_point_sample(padded, 3, nonfinite="reject", lengths=[10])
    assert torch.equal(rows, farthest_point_sample(padded[:, :10], 3))
    with pytest.raises(ValueError, match=r"1 rows .* row 10 of cloud 0"):
        farthest_point_sample(padded, 3, nonfinite="reject", lengths=[11])


def test_reject_takes_a_sum_that_overflows(device: torch.device) -> None:
    large = torch.full((1, 4, 3), 3e38, device=device)
    assert farthest_point_sample(large, 2, nonfinite="reject").tolist() == [[0, 1]]
