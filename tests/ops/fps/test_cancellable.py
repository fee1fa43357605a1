"""Cancellation of single clouds in _furthest_point_sample_cancellable."""

import threading
import time

import pytest
import torch
from torch import Tensor

import farpoint_ops  # noqa: F401  registers the ops

ops = torch.ops.farpoint
SIZES, COUNTS = [3000, 400_000, 20, 700], [50, 400_000, 20, 3]


def offsets(values: list[int]) -> Tensor:
    return torch.tensor([0, *values]).cumsum(0)


def sample(xyz: Tensor, cancelled: Tensor) -> tuple[Tensor, Tensor]:
    """Indices and distances of clouds of SIZES."""
    return ops._furthest_point_sample_cancellable(
        xyz, offsets(SIZES), offsets(COUNTS), None, sum(COUNTS), cancelled, True
    )


@pytest.fixture(scope="module")
def xyz() -> Tensor:
    return torch.rand(sum(SIZES), 3, generator=torch.Generator().manual_seed(2))


def test_what_is_not_given_up_is_the_same_as_without_flags(xyz: Tensor) -> None:
    small = xyz[:3000].repeat(2, 1)
    arguments = (small, offsets([3000, 3000]), offsets([40, 7]), torch.tensor([2, 9]), 47)
    expected = ops.furthest_point_sample_ragged(*arguments, 3000, 40, True)
    flags = torch.zeros(2, dtype=torch.int32)
    got = ops._furthest_point_sample_cancellable(*arguments, flags, True)
    assert all(map(torch.equal, got, expected))


def test_a_cloud_that_is_given_up_while_it_runs_costs_the_others_nothing(xyz: Tensor) -> None:
    flags = torch.zeros(4, dtype=torch.int32)
    timer = threading.Timer(0.1, lambda: flags.__setitem__(1, 1))
    timer.start()
    begin = time.perf_counter()
    indices, distances = sample(xyz, flags)
    seconds = time.perf_counter() - begin
    timer.join()
    assert flags[1] == 1, "the cloud was done before it could be given up"
    flags.fill_(0)
    begin = time.perf_counter()
    expected = sample(xyz, flags)
    assert seconds < 0.1 + (time.perf_counter() - begin) / 2
    slots = offsets(COUNTS)
    for b in (0, 2, 3):
        part = slice(slots[b], slots[b + 1])
        assert torch.equal(indices[part], expected[0][part])
        assert torch.equal(distances[part], expected[1][part])


def test_a_cloud_that_is_given_up_before_is_not_begun(xyz: Tensor) -> None:
    begin = time.perf_counter()
    sample(xyz, torch.ones(4, dtype=torch.int32))
    assert time.perf_counter() - begin < 0.1


@pytest.mark.parametrize(
    ("flags", "error", "said"),
    [
        (torch.zeros(4), TypeError, "cancelled: expected int32, got Float"),
        (torch.zeros(3, dtype=torch.int32), ValueError, "got \\[3\\]"),
        (torch.zeros(8, dtype=torch.int32)[::2], ValueError, "expected contiguous"),
    ],
)
def test_wrong_flags_are_named(
    xyz: Tensor, flags: Tensor, error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        sample(xyz, flags)
