"""Farthest point sampling of clouds with points that are not finite: refused or skipped."""

import pytest
import torch
from torch import Tensor

from farpoint_ops import farthest_point_sample
from farpoint_ops import farthest_point_sample_ragged as sample_ragged


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
