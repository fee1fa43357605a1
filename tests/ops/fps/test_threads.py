"""Parallel sampling of one cloud: the same samples with any number of threads."""

import threading
import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
from tests.support.clouds import street_scan, whole_street_scan
from torch import Tensor

from farpoint_ops import farthest_point_sample

POINTS = 60_000
THREADS = (2, 3, 7)


@pytest.fixture(autouse=True)
def restored_threads() -> Iterator[None]:
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


def _scan(_: np.random.Generator) -> np.ndarray:
    return street_scan()[:, :3]


def _whole_scan(_: np.random.Generator) -> np.ndarray:
    return whole_street_scan()[:, :3]


def _ball(rng: np.random.Generator) -> np.ndarray:
    return rng.normal(size=(POINTS, 3))


def _lattice(rng: np.random.Generator) -> np.ndarray:
    """Ties across every border between parts."""
    grid = np.stack(np.meshgrid(*[np.arange(40)] * 3), -1).reshape(-1, 3)
    return rng.permutation(grid)[:POINTS]


def _duplicates(rng: np.random.Generator) -> np.ndarray:
    """Fewer positions than samples: parts run out of points that are away from the samples."""
    return rng.integers(0, 12, size=(POINTS, 3))


def _equal(_: np.random.Generator) -> np.ndarray:
    return np.ones((POINTS, 3))


def _line(rng: np.random.Generator) -> np.ndarray:
    return rng.uniform(size=(POINTS, 1)) * [[1, 2, 3]]


def _dense_core(rng: np.random.Generator) -> np.ndarray:
    """All samples but a few are of the sparse half of the points."""
    scales = np.repeat([1e-4, 10.0], POINTS // 2)[:, None]
    return rng.permutation(rng.normal(size=(POINTS, 3)) * scales)


def _overflow(rng: np.random.Generator) -> np.ndarray:
    """Distances between some points are infinite, and so is the surface of the boxes."""
    cloud = rng.normal(size=(POINTS, 3))
    cloud[:40] *= 1e30
    return cloud


CLOUDS = [_scan, _whole_scan, _ball, _lattice, _duplicates, _equal, _line, _dense_core, _overflow]


def tensor(cloud: np.ndarray) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(cloud, np.float32))[None]


def on_threads(threads: int, cloud: Tensor, m: int, **options: bool) -> list[Tensor]:
    torch.set_num_threads(threads)
    result = farthest_point_sample(cloud, m, start=7, **options)
    return [result] if isinstance(result, Tensor) else list(result)


@pytest.mark.parametrize("m", [600, 14_000])
@pytest.mark.parametrize("make", CLOUDS, ids=lambda make: make.__name__.strip("_"))
def test_any_number_of_threads_gives_the_same_bits(
    make: Callable[[np.random.Generator], np.ndarray], m: int
) -> None:
    cloud = tensor(make(np.random.default_rng(5)))
    for distances in (False, True):
        expected = on_threads(1, cloud, m, return_distances=distances)
        for threads in THREADS:
            found = on_threads(threads, cloud, m, return_distances=distances)
            assert all(map(torch.equal, found, expected)), (threads, distances)


@pytest.mark.parametrize("threads", THREADS)
def test_all_points_are_sampled_once(threads: int) -> None:
    cloud = tensor(_ball(np.random.default_rng(6)))[:, :30_000]
    expected = on_threads(1, cloud, 30_000)[0]
    found = on_threads(threads, cloud, 30_000)[0]
    assert torch.equal(found, expected)
    assert torch.equal(found.sort().values[0], torch.arange(30_000, dtype=torch.int32))


def test_every_thread_sees_that_its_cloud_is_given_up() -> None:
    points = 400_000
    cloud = torch.rand(points, 3, generator=torch.Generator().manual_seed(1))
    offsets, flags = torch.tensor([0, points]), torch.zeros(1, dtype=torch.int32)
    torch.set_num_threads(4)
    done = threading.Event()

    def sample() -> None:
        torch.ops.farpoint._furthest_point_sample_cancellable(
            cloud, offsets, offsets, None, points, flags, False
        )
        done.set()

    worker = threading.Thread(target=sample)
    worker.start()
    time.sleep(0.05)
    assert not done.is_set(), "the cloud was done before it could be given up"
    flags[0] = 1
    # All its points take some tenths of a second.
    worker.join(timeout=10)
    assert done.is_set()
