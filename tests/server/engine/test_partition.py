"""Batches that are cut and joined again give the answers of the whole."""

from dataclasses import replace
from functools import partial

import numpy as np
import torch
from tests.support.sampling_work import clouds_of

from farpoint_server.engine import partition as pieces
from farpoint_server.engine.engine import Engine
from farpoint_server.engine.types import Batch
from farpoint_server.errors import OverloadedError

RANDOM = np.random.default_rng(7)
clouds = partial(clouds_of, RANDOM)


def out_of_memory_above(engine: Engine, points: int) -> list[int]:
    """Has the engine's launches fail above a number of points; returns the sizes that ran."""
    forward, sizes = engine._forward, []

    def limited(parts):
        size = sum(len(part.clouds.points) for part in parts)
        if size > points:
            raise torch.OutOfMemoryError("CUDA out of memory")
        sizes.append(size)
        return forward(parts)

    engine._task = replace(engine._task, forward=limited)
    return sizes


async def test_a_batch_that_runs_out_of_memory_is_answered_as_if_it_had_not():
    engine = Engine(torch.device("cpu"), 1)
    await engine.start()
    requests = [clouds(30, 50, 20, with_distances=True), clouds(40), clouds(10, 60)]
    whole = await engine.sample(Batch(requests))
    sizes = out_of_memory_above(engine, 60)
    cut = await engine.sample(Batch(requests))
    assert sizes == [30, 50, 20, 40, 10, 60]
    for a, b in zip(whole, cut, strict=True):
        assert a.rows.tolist() == b.rows.tolist()
    assert cut[0].distances.tolist() == whole[0].distances.tolist()
    assert cut[1].distances is None
    engine.stop()


async def test_the_cloud_that_is_too_large_fails_its_request_alone():
    engine = Engine(torch.device("cpu"), 1)
    await engine.start()
    out_of_memory_above(engine, 60)
    first, second, third = await engine.sample(Batch([clouds(30), clouds(20, 61), clouds(40)]))
    assert isinstance(second, OverloadedError)
    assert (len(first.rows), len(third.rows)) == (10, 13)
    engine.stop()


def test_giving_a_request_up_reaches_its_pieces():
    batch = Batch([clouds(3), clouds(4, 5), clouds(6)])
    _, middle, last = pieces.cut(batch)
    left, right = pieces.halve(middle)
    part = pieces.join([right, last])
    batch.give_up(1)
    assert part.cancelled.tolist() == [1, 0]
    assert pieces.halve(left) is None
