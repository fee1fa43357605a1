"""Long samplings that stop by a flag of their cloud."""

import threading
import time

import pytest
import torch
from tests.support import reference
from torch import Tensor

import farpoint_ops  # noqa: F401  registers the ops

ops = torch.ops.farpoint
SIZES, COUNTS = [3000, 400_000, 20, 700], [50, 400_000, 20, 3]
# Of a sampling that would take a minute and stops within 0.1 s on an idle machine.
SECONDS_TO_END = 5


def offsets(*values: int) -> Tensor:
    return torch.tensor([0, *values]).cumsum(0)


def cloud(n: int, d: int = 3, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.rand(n, d, generator=torch.Generator().manual_seed(2), dtype=dtype)


def sample(xyz: Tensor, flags: Tensor) -> tuple[Tensor, Tensor]:
    """Indices and distances of clouds of SIZES."""
    return ops._furthest_point_sample_cancellable(
        xyz, offsets(*SIZES), offsets(*COUNTS), None, sum(COUNTS), flags, True
    )


def flags_of(clouds: int) -> Tensor:
    return torch.zeros(clouds, dtype=torch.int32)


def test_clouds_that_are_not_cancelled_are_the_same_as_without_flags() -> None:
    arguments = cloud(6000), offsets(3000, 3000), offsets(40, 7), torch.tensor([2, 9]), 47
    expected = ops.furthest_point_sample_ragged(*arguments, 3000, 40, True)
    got = ops._furthest_point_sample_cancellable(*arguments, flags_of(2), True)
    assert all(map(torch.equal, got, expected))


def test_clouds_of_a_radius_each_with_flags() -> None:
    xyz, bounds, radii = cloud(80), offsets(30, 50), torch.tensor([0.3, 0.0])
    rows, distances = ops._furthest_point_sample_cancellable(
        xyz, bounds, bounds, None, 80, flags_of(2), True, radii
    )
    expected = reference.furthest_point_sample_ragged(xyz, [0, 30, 80], [30, 50], [0, 0], [0.3, 0])
    assert torch.equal(rows[rows >= 0], expected[0])
    assert torch.equal(distances[rows >= 0], expected[1])
    assert (distances[rows < 0] == 0).all()


def test_a_cloud_that_is_cancelled_costs_the_others_nothing() -> None:
    xyz, flags = cloud(sum(SIZES)), flags_of(4)
    timer = threading.Timer(0.1, lambda: flags.__setitem__(1, 1))
    timer.start()
    begin = time.perf_counter()
    indices, distances = sample(xyz, flags)
    seconds = time.perf_counter() - begin
    timer.join()
    begin = time.perf_counter()
    expected = sample(xyz, flags_of(4))
    assert seconds < 0.1 + (time.perf_counter() - begin) / 2
    slots = offsets(*COUNTS)
    for b in (0, 2, 3):
        part = slice(slots[b], slots[b + 1])
        assert torch.equal(indices[part], expected[0][part])
        assert torch.equal(distances[part], expected[1][part])


@pytest.mark.parametrize("dimensions", [3, 16])
@pytest.mark.parametrize("threads", [1, 4])
def test_every_thread_sees_that_its_cloud_is_cancelled(dimensions: int, threads: int) -> None:
    xyz, flags = cloud(2_000_000, dimensions), flags_of(1)
    bounds, before = offsets(len(xyz)), torch.get_num_threads()
    timer = threading.Timer(0.1, lambda: flags.fill_(1))
    timer.start()
    torch.set_num_threads(threads)
    try:
        ops._furthest_point_sample_cancellable(xyz, bounds, bounds, None, len(xyz), flags)
    finally:
        torch.set_num_threads(before)
        ended = time.perf_counter()
    assert flags.item(), "the cloud was done before it could be cancelled"
    assert time.perf_counter() - ended < SECONDS_TO_END
    timer.join()


@pytest.mark.parametrize("dimensions", [3, 16])
@pytest.mark.parametrize("threads", [1, 4])
def test_a_call_that_outlasts_its_budget_has_empty_outputs(dimensions: int, threads: int) -> None:
    xyz, bounds = cloud(2_000_000, dimensions), offsets(20, 1_999_980)
    arguments = xyz, bounds, bounds, None, len(xyz), flags_of(2), True, None
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    begin = time.perf_counter()
    try:
        outputs = ops._furthest_point_sample_cancellable(*arguments, 100_000_000)
    finally:
        torch.set_num_threads(before)
    assert 0.1 < time.perf_counter() - begin < SECONDS_TO_END
    assert [output.shape for output in outputs] == [(0,), (0,)]


def test_a_budget_that_is_kept_changes_nothing() -> None:
    arguments = cloud(30), offsets(10, 20), offsets(9, 20), None, 29, flags_of(2), True, None
    expected = ops._furthest_point_sample_cancellable(*arguments)
    got = ops._furthest_point_sample_cancellable(*arguments, 60_000_000_000)
    assert all(map(torch.equal, got, expected))


@pytest.mark.parametrize(
    ("flags", "error", "message"),
    [
        (torch.zeros(4), TypeError, "cancelled: expected int32, got Float"),
        (flags_of(3), ValueError, "got \\[3\\]"),
        (flags_of(8)[::2], ValueError, "expected contiguous"),
    ],
)
def test_wrong_flags_are_named(flags: Tensor, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        sample(cloud(sum(SIZES)), flags)
