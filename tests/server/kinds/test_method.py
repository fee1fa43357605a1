"""Requests by other methods, and to a covering radius: answered, halved, cancelled."""

import numpy as np
import pytest
import torch
from tests.support.compute.fake_device import FakeDevice

from farpoint_ops import random_sample, voxel_grid_sample
from farpoint_server.compute.batch import Batch
from farpoint_server.compute.memory.gate import Gate
from farpoint_server.compute.transfer.queue import TransferQueue
from farpoint_server.kinds.method import Method, MethodClouds, MethodWork, RandomRows, VoxelGrid
from farpoint_server.kinds.sample import Clouds, Samples, SampleWork

POINTS = np.random.default_rng(1).normal(size=(200, 3)).astype(np.float32)
LENGTHS, COUNTS = np.array([60, 1, 139]), np.array([60, 1, 9])
CLOUDS = np.split(POINTS, LENGTHS.cumsum()[:-1])
METHODS: dict[str, Method] = {
    "first": VoxelGrid(0.8, "first", (0.1, 0, 0)),
    "nearest_mean": VoxelGrid(0.8, "nearest_mean", (0.1, 0, 0)),
    "mean": VoxelGrid(0.8, "mean", (0.1, 0, 0)),
    "random": RandomRows((5, 2**64 - 1, 5)),
}


def work(method: Method) -> MethodWork:
    return MethodWork(MethodClouds(POINTS, LENGTHS, COUNTS, method))


def answer(asked: MethodWork) -> Samples:
    return asked.inline(10**9)


@pytest.mark.parametrize("kind", METHODS)
def test_each_cloud_is_answered_by_itself(kind):
    method, asked = METHODS[kind], work(METHODS[kind])
    samples, clouds = answer(asked), [torch.from_numpy(cloud) for cloud in CLOUDS]
    if isinstance(method, RandomRows):
        each = zip(clouds, COUNTS, method.seeds, strict=True)
        expected = [random_sample(c[None], int(m), seed=s)[0].tolist() for c, m, s in each]
    else:
        options = {"select": kind if kind != "mean" else "first", "origin": method.origin}
        expected = [voxel_grid_sample(c, 0.8, **options)[0].tolist() for c in clouds]
    firsts = LENGTHS.cumsum() - LENGTHS
    flat = [row + first for rows, first in zip(expected, firsts, strict=True) for row in rows]
    assert samples.rows.tolist() == flat
    counts = COUNTS if samples.counts is None else samples.counts
    assert counts.tolist() == [len(rows) for rows in expected]
    assert (samples.points is not None) == (kind == "mean")
    assert asked.cost_key == kind


def test_a_device_is_given_the_same_and_answers_the_same():
    gate, device = Gate(), FakeDevice()
    transfers = TransferQueue(device, gate.hold_shared)
    for method in METHODS.values():
        asked = [work(method)]
        with gate.reading():
            outputs = transfers.run(MethodWork.launches(asked))
        (found,) = MethodWork.answers(asked, outputs)
        for got, expected in zip(found, answer(work(method)), strict=True):
            np.testing.assert_array_equal(got, expected)
    transfers.wait(0)
    transfers.stop()


@pytest.mark.parametrize("kind", METHODS)
def test_halves_are_joined(kind):
    asked = work(METHODS[kind])
    left, right = asked.halve()
    joined, whole = left.join(answer(left), answer(right)), answer(asked)
    for one, other in zip(joined, whole, strict=True):
        np.testing.assert_array_equal(one, other)
    assert left.halve() is None


RANDOM = np.random.default_rng(5)


def clouds(lengths: list[int], radius: float | None = None, points: np.ndarray | None = None):
    if points is None:
        points = RANDOM.integers(0, 6, size=(sum(lengths), 3)).astype(np.float32)
    counts = np.array(lengths)
    return Clouds(points, counts, counts, counts * 0, True, radius)


def sampled(*requests: Clouds):
    return Batch([SampleWork(request) for request in requests]).run_on_cpu()


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


def test_halves_of_a_radius_are_joined() -> None:
    request = clouds([30, 50, 20], 1.5)
    left, right = SampleWork(request).halve()
    joined = left.join(left.inline(10**9), right.inline(10**9))
    (expected,) = sampled(request)
    assert joined.rows.tolist() == expected.rows.tolist()
    assert joined.counts.tolist() == expected.counts.tolist()
