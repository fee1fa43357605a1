"""Signals during a long sampling: Ctrl-C ends it, a handler that returns does not."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from torch import Tensor

from farpoint_ops import farthest_point_sample, farthest_point_sample_ragged

# Promised are 0.1; a machine with other work on its cores gets more.
SECONDS_TO_END = 0.5


@pytest.fixture(scope="module")
def cloud() -> Tensor:
    """Many seconds of work when every point is sampled."""
    return torch.rand(1, 3_000_000, 3, generator=torch.Generator().manual_seed(2))


@pytest.fixture(autouse=True)
def _ctrl_c() -> Iterator[None]:
    """Python's handler of Ctrl-C, also where a shell has had it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@contextmanager
def signal_after(seconds: float) -> Iterator[list[float]]:
    """Ctrl-C while the block runs; yields the list that the time of it is put in."""
    sent: list[float] = []

    def send() -> None:
        sent.append(time.perf_counter())
        os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Timer(seconds, send)
    timer.start()
    try:
        yield sent
    finally:
        timer.join()


def test_ctrl_c_ends_a_long_sampling(cloud: Tensor) -> None:
    with signal_after(0.2) as sent, pytest.raises(KeyboardInterrupt):
        farthest_point_sample(cloud, cloud.size(1))
    assert sent
    assert time.perf_counter() - sent[0] < SECONDS_TO_END


@pytest.mark.parametrize(("dimensions", "dtype"), [(16, torch.float32), (3, torch.float64)])
def test_ctrl_c_ends_a_long_sampling_in_other_spaces(dimensions: int, dtype: torch.dtype) -> None:
    cloud = torch.rand(1, 300_000, dimensions, dtype=dtype)
    with signal_after(0.2) as sent, pytest.raises(KeyboardInterrupt):
        farthest_point_sample(cloud, cloud.size(1))
    assert time.perf_counter() - sent[0] < SECONDS_TO_END


def test_ctrl_c_ends_a_long_ragged_sampling(cloud: Tensor) -> None:
    n = cloud.size(1)
    with signal_after(0.2) as sent, pytest.raises(KeyboardInterrupt):
        farthest_point_sample_ragged(cloud[0], [0, 10, n], [10, n - 10])
    assert sent
    assert time.perf_counter() - sent[0] < SECONDS_TO_END


def test_the_next_call_is_as_if_nothing_had_been(cloud: Tensor) -> None:
    part = cloud[:, :100_000]
    expected = farthest_point_sample(part, 10_000)
    with signal_after(0.2), pytest.raises(KeyboardInterrupt):
        farthest_point_sample(cloud, cloud.size(1))
    assert torch.equal(farthest_point_sample(part, 10_000), expected)


def test_a_handler_that_returns_runs_at_once_and_ends_nothing(cloud: Tensor) -> None:
    part = cloud[:, :400_000]
    handled: list[float] = []
    before = signal.signal(signal.SIGINT, lambda *_: handled.append(time.perf_counter()))
    try:
        with signal_after(0.05) as sent:
            indices = farthest_point_sample(part, part.size(1))
            end = time.perf_counter()
    finally:
        signal.signal(signal.SIGINT, before)
    assert sent[0] < handled[0] < end
    assert indices[0].sort().values.equal(torch.arange(part.size(1), dtype=torch.int32))


def test_any_exception_of_a_handler_comes_out(cloud: Tensor) -> None:
    def handler(*_: object) -> None:
        raise TimeoutError("enough")

    before = signal.signal(signal.SIGINT, handler)
    try:
        with signal_after(0.2), pytest.raises(TimeoutError, match="enough"):
            farthest_point_sample(cloud, cloud.size(1))
    finally:
        signal.signal(signal.SIGINT, before)


def test_the_op_itself_says_that_it_was_interrupted(cloud: Tensor) -> None:
    """Where no Python of ours is around it, as in a compiled graph."""
    with signal_after(0.2), pytest.raises(RuntimeError, match="interrupted, as a signal handler"):
        torch.ops.farpoint.furthest_point_sample(cloud, cloud.size(1))
