"""Requests that end at a covering radius: mixed with others in a launch, sliced, estimated."""

from dataclasses import replace

import numpy as np
import pytest

from farpoint_server.engine.sample import SampleBatch, SampleWork, launch, most_samples
from farpoint_server.engine.types import Clouds

RANDOM = np.random.default_rng(5)


def clouds(lengths: list[int], radius: float | None = None, points: np.ndarray | None = None):
    if points is None:
        points = RANDOM.integers(0, 6, size=(sum(lengths), 3)).astype(np.float32)
    counts = np.array(lengths)
    return Clouds(points, counts, counts, counts * 0, True, radius)


def sampled(*requests: Clouds):
    return launch(requests, np.zeros(sum(len(r.lengths) for r in requests), np.int32))


def test_requests_with_and_without_a_radius_share_a_launch() -> None:
    plain, covered, other = clouds([40, 300]), clouds([30, 50], 1.5), clouds([60], 0.0)
    together = sampled(plain, covered, other)
    alone = [sampled(request)[0] for request in (plain, covered, other)]
    for a, b in zip(together, alone, strict=True):
        assert a.rows.tolist() == b.rows.tolist()
        assert a.distances.tolist() == b.distances.tolist()
    assert together[0].counts is None
    assert len(together[0].rows) == 340
    assert together[1].counts.tolist() == alone[1].counts.tolist()
    assert together[1].counts.sum() == len(together[1].rows) < 80
    assert len(np.unique(other.points, axis=0)) == together[2].counts[0]


def test_halves_are_joined() -> None:
    request = clouds([30, 50, 20], 1.5)
    batch = SampleBatch([request])
    halves = [sampled(half.requests[0])[0] for half in batch.halve()]
    joined = batch.halve()[0].join(*halves)
    (expected,) = sampled(request)
    assert joined.rows.tolist() == expected.rows.tolist()
    assert joined.counts.tolist() == expected.counts.tolist()


@pytest.mark.parametrize("radius", [0.0, 0.3, 1.5, 4.0, np.inf])
def test_the_estimate_is_a_bound(radius: float) -> None:
    """Also for the closest packing that a lattice has, and for one that is not finite."""
    grid = np.stack(np.meshgrid(*[np.arange(8)] * 3), -1).reshape(-1, 3)
    packed = grid[grid.sum(1) % 2 == 0].astype(np.float32)
    holes = packed.copy()
    holes[5] = np.nan
    for points in (packed, holes, RANDOM.normal(size=(500, 3)).astype(np.float32)):
        request = clouds([len(points)], radius, points)
        assert sampled(request)[0].counts[0] <= most_samples(request)[0]


def test_the_cost_of_few_samples_is_small() -> None:
    request = clouds([2000])
    work, covered = SampleWork(request), SampleWork(replace(request, covering_radius=3.0))
    assert covered.cost_ns < work.cost_ns / 4
    assert covered.cost_key != work.cost_key
