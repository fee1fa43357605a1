"""Random starts of furthest point sampling: drawn from a generator, the same on every device."""

import pytest
import torch
from torch import Tensor

from farpoint_ops import farthest_point_sample, farthest_point_sample_ragged, reference

SIZES = [50, 7, 50, 1]


def generator(seed: int = 5) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.fixture
def clouds(device: torch.device) -> Tensor:
    return torch.randn(4, 50, 3, generator=generator()).to(device)


def test_equals_the_reference(clouds: Tensor) -> None:
    rows = farthest_point_sample(clouds, 1, start="random", generator=generator())
    assert rows[:, 0].tolist() == reference.random_starts([50] * 4, generator())
    rows = farthest_point_sample(clouds, 1, start="random", generator=generator(), lengths=SIZES)
    assert rows[:, 0].tolist() == reference.random_starts(SIZES, generator())


def test_ragged_draws_the_same(clouds: Tensor) -> None:
    bounds = torch.tensor([0, *SIZES]).cumsum(0)
    flat = torch.cat([cloud[:size] for cloud, size in zip(clouds, SIZES, strict=True)])
    rows = farthest_point_sample_ragged(flat, bounds, 1, start="random", generator=generator())
    starts = reference.random_starts(SIZES, generator())
    assert rows.tolist() == [int(b) + s for b, s in zip(bounds[:-1], starts, strict=True)]


def test_the_rest_follows_from_the_start(clouds: Tensor) -> None:
    rows = farthest_point_sample(clouds, 20, start="random", generator=generator())
    starts = torch.tensor(reference.random_starts([50] * 4, generator()))
    assert torch.equal(rows, farthest_point_sample(clouds, 20, start=starts))


def test_without_a_generator_the_default_one_is_drawn_from(clouds: Tensor) -> None:
    torch.manual_seed(11)
    first, second = (farthest_point_sample(clouds, 3, start="random") for _ in range(2))
    torch.manual_seed(11)
    assert torch.equal(farthest_point_sample(clouds, 3, start="random"), first)
    assert not torch.equal(first, second)


def test_every_row_is_a_start_sometimes(device: torch.device) -> None:
    clouds = torch.rand(400, 4, 3, generator=generator()).to(device)
    rows = farthest_point_sample(clouds, 1, start="random", generator=generator())
    counts = rows.flatten().long().bincount(minlength=4)
    assert counts.min() > 60
    assert counts.max() < 140
