"""Batches that are cut and joined again give the answers of the whole."""

from functools import partial

import numpy as np
import pytest
import torch
from tests.support.scheduling import clouds_of

from farpoint_server.engine import sample
from farpoint_server.engine.engine import Engine
from farpoint_server.engine.sample import SampleBatch
from farpoint_server.errors import OverloadedError

RANDOM = np.random.default_rng(7)
clouds = partial(clouds_of, RANDOM)


@pytest.fixture
def out_of_memory_above(monkeypatch):
    """Has launches fail above a number of points; returns the sizes that ran."""

    def limit(points: int) -> list[int]:
        launch, sizes = sample.launch, []

        def limited(requests, cancelled):
            size = sum(len(clouds.points) for clouds in requests)
            if size > points:
                raise torch.OutOfMemoryError("CUDA out of memory")
            sizes.append(size)
            return launch(requests, cancelled)

        monkeypatch.setattr(sample, "launch", limited)
        return sizes

    return limit


async def test_a_batch_that_runs_out_of_memory_is_answered_as_if_it_had_not(
    out_of_memory_above,
):
    engine = Engine(torch.device("cpu"), 1)
    await engine.start()
    requests = [clouds(30, 50, 20, with_distances=True), clouds(40), clouds(10, 60)]
    whole = await engine.run(SampleBatch(requests))
    sizes = out_of_memory_above(60)
    cut = await engine.run(SampleBatch(requests))
    assert sizes == [30, 50, 20, 40, 10, 60]
    for a, b in zip(whole, cut, strict=True):
        assert a.rows.tolist() == b.rows.tolist()
    assert cut[0].distances.tolist() == whole[0].distances.tolist()
    assert cut[1].distances is None
    engine.stop()


async def test_the_cloud_that_is_too_large_fails_its_request_alone(out_of_memory_above):
    engine = Engine(torch.device("cpu"), 1)
    await engine.start()
    out_of_memory_above(60)
    first, second, third = await engine.run(SampleBatch([clouds(30), clouds(20, 61), clouds(40)]))
    assert isinstance(second, OverloadedError)
    assert (len(first.rows), len(third.rows)) == (10, 13)
    engine.stop()


def test_giving_a_request_up_reaches_its_slices_and_halves():
    batch = SampleBatch([clouds(3), clouds(4, 5), clouds(6)])
    rest = batch[1:]
    left, right = rest[:1].halve()
    batch.cancel(1)
    assert rest.cancelled.tolist() == [1, 1, 0]
    assert (left.cancelled.tolist(), right.cancelled.tolist()) == ([1], [1])
    assert batch[2:].cancelled.tolist() == [0]
    assert left.halve() is None
