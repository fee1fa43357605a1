"""Requests by other methods than the farthest points: answered, halved, given up, estimated."""

import numpy as np
import pytest
import torch
from tests.support.fake_device import FakeDevice
from tests.support.method_references import random_rows, voxel_rows

from farpoint_server.engine.methods import MethodWork
from farpoint_server.engine.transfer.pipeline import Pipeline
from farpoint_server.engine.types import Method, MethodClouds, RandomRows, Samples, VoxelGrid
from farpoint_server.memory.gate import Gate

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
    (samples,) = asked.run(torch.device("cpu"), None)
    return samples


@pytest.mark.parametrize("kind", METHODS)
def test_each_cloud_is_answered_by_itself(kind):
    method, asked = METHODS[kind], work(METHODS[kind])
    samples = answer(asked)
    expected = (
        [random_rows(c, m, s) for c, m, s in zip(CLOUDS, COUNTS, method.seeds, strict=True)]
        if isinstance(method, RandomRows)
        else [voxel_rows(c, 0.8, kind, method.origin) for c in CLOUDS]
    )
    firsts = LENGTHS.cumsum() - LENGTHS
    flat = [row + first for rows, first in zip(expected, firsts, strict=True) for row in rows]
    assert samples.rows.tolist() == flat
    counts = COUNTS if samples.counts is None else samples.counts
    assert counts.tolist() == [len(rows) for rows in expected]
    assert (samples.points is not None) == (kind == "mean")
    assert asked.cost_key == kind


def test_a_device_is_given_the_same_and_answers_the_same():
    # The number of voxels depends on the points, so the stand-in has to be the points themselves.
    gate, device = Gate(), FakeDevice(stand_in=lambda _: torch.from_numpy(POINTS))
    pipeline = Pipeline(device, gate.hold_shared)
    for method in METHODS.values():
        with gate.reading():
            answers = work(method).run(torch.device("cpu"), pipeline)
        for got, expected in zip(answers.result()[0], answer(work(method)), strict=True):
            np.testing.assert_array_equal(got, expected)
    pipeline.wait(0)
    assert not device.races
    pipeline.stop()


@pytest.mark.parametrize("kind", METHODS)
def test_halves_are_joined(kind):
    asked = work(METHODS[kind])
    left, right = asked.halve()
    joined, whole = left.join(answer(left), answer(right)), answer(asked)
    for one, other in zip(joined, whole, strict=True):
        np.testing.assert_array_equal(one, other)
    assert left.halve() is None


def test_what_is_given_up_does_not_begin():
    asked = work(METHODS["random"])
    left, _ = asked.halve()
    asked.cancel(0)
    assert len(answer(left).rows) == 0
