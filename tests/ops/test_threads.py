"""Threading of the ops: the GIL is released, and the number of threads changes no result."""

import threading
import time
from collections.abc import Iterator

import pytest
import torch

from farpoint_ops import (
    ball_query,
    farthest_point_sample,
    gather_points,
    interpolate,
    knn,
    nearest_sample,
)

scatter_points = torch.ops.farpoint.scatter_points
interpolate_scatter = torch.ops.farpoint.interpolate_scatter


@pytest.fixture
def restored_threads() -> Iterator[None]:
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


def ran_in_the_middle_of_an_op(cloud: torch.Tensor) -> bool:
    """Whether this thread did while another one sampled."""
    span: list[float] = []

    def sample() -> None:
        span.append(time.perf_counter())
        farthest_point_sample(cloud, 6000)
        span.append(time.perf_counter())

    worker = threading.Thread(target=sample)
    ticks = []
    worker.start()
    while worker.is_alive():
        ticks.append(time.perf_counter())
    worker.join()
    begin, end = span
    quarter = (end - begin) / 4
    return any(begin + quarter < tick < end - quarter for tick in ticks)


def test_python_runs_while_an_op_does() -> None:
    cloud = torch.rand(1, 60_000, 3)
    # A busy machine may give the op its core for as long as it takes, but not each time.
    assert any(ran_in_the_middle_of_an_op(cloud) for _ in range(50))


@pytest.mark.usefixtures("restored_threads")
def test_the_number_of_threads_changes_no_bit() -> None:
    clouds = torch.rand(5, 3000, 3, generator=torch.Generator().manual_seed(0))
    results = []
    for threads in (1, 2, 7):
        torch.set_num_threads(threads)
        idx, radii = farthest_point_sample(clouds, 300, return_distances=True)
        gathered = gather_points(clouds.transpose(1, 2), idx % 50)
        near, squared = knn(clouds, clouds[:, :900], 5)
        results.append(
            (
                *(idx, radii, gathered, scatter_points(gathered, idx % 50, 50), near, squared),
                *ball_query(clouds, clouds[:, :900], 0.1, 9),
                *nearest_sample(clouds, clouds[:, :900]),
                interpolate(gathered, near % 300, squared),
                interpolate_scatter(gathered[..., :1].expand(-1, -1, 900), near, squared, 3000),
            )
        )
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))


def test_many_python_threads_share_the_ops() -> None:
    clouds = torch.rand(8, 2000, 3, generator=torch.Generator().manual_seed(0))
    expected = farthest_point_sample(clouds, 100)
    found: dict[int, torch.Tensor] = {}

    def sample(b: int) -> None:
        found[b] = farthest_point_sample(clouds[b : b + 1], 100)

    workers = [threading.Thread(target=sample, args=(b,)) for b in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert torch.equal(torch.cat([found[b] for b in range(8)]), expected)
