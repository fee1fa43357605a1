"""Batches on the real engine: one launch, and each request its own part of it."""

import asyncio
import time

import numpy as np
import pytest
import torch

from farpoint_server.engine import devices
from farpoint_server.engine.engine import Engine
from farpoint_server.engine.sample import SampleBatch
from farpoint_server.engine.types import Clouds
from farpoint_server.errors import DeviceUnavailableError

RANDOM = np.random.default_rng(5)


def clouds(lengths: list[int], counts: list[int], *, with_distances: bool) -> Clouds:
    return Clouds(
        RANDOM.normal(size=(sum(lengths), 3)).astype(np.float32),
        np.array(lengths),
        np.array(counts),
        np.array(lengths) - 1,
        with_distances,
    )


async def test_a_request_gets_the_same_samples_alone_and_in_a_batch():
    engine = Engine(torch.device("cpu"), 1)
    await engine.start()
    first = clouds([30, 50], [4, 9], with_distances=False)
    second = clouds([20], [7], with_distances=True)
    together = await engine.run(SampleBatch([first, second]))
    alone = [*await engine.run(SampleBatch([first])), *await engine.run(SampleBatch([second]))]
    for a, b in zip(together, alone, strict=True):
        assert a.rows.tolist() == b.rows.tolist()
    assert together[0].rows[[0, 4]].tolist() == [29, 79]
    assert together[1].rows[0] == 19
    assert together[0].distances is None
    assert together[1].distances.tolist() == alone[1].distances.tolist()
    engine.stop()


async def test_a_request_that_is_given_up_frees_the_engine_and_the_others_are_finished():
    """Alone, the large one takes many seconds; given up, it takes no time."""
    engine = Engine(torch.device("cpu"), 1)
    await engine.start()
    small = clouds([2000], [100], with_distances=True)
    large = clouds([300_000] * 16, [300_000] * 16, with_distances=False)
    (expected,) = await engine.run(SampleBatch([small]))
    batch = SampleBatch([large, small])
    running = asyncio.ensure_future(engine.run(batch))
    await asyncio.sleep(0.1)
    assert not running.done()
    batch.cancel(0)
    begun = time.monotonic()
    _, kept = await running
    assert time.monotonic() - begun < 10
    assert kept.rows.tolist() == expected.rows.tolist()
    assert kept.distances.tolist() == expected.distances.tolist()
    engine.stop()


async def test_the_engine_uses_the_threads_that_it_is_given():
    engine = Engine(torch.device("cpu"), 1)
    await engine.start()
    assert await engine.call(torch.get_num_threads) == 1
    engine.stop()


def test_auto_all_is_the_cpu_and_every_gpu(monkeypatch):
    monkeypatch.setattr(devices, "_why_no_cuda", lambda index: None if index < 2 else "no more")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert [*map(str, devices.resolve_all(["auto:all"]))] == ["cpu", "cuda:0", "cuda:1"]
    assert [*map(str, devices.resolve_all(["cuda:1", "cpu"]))] == ["cuda:1", "cpu"]
    with pytest.raises(DeviceUnavailableError, match="no more"):
        devices.resolve_all(["cpu", "cuda:2"])
    monkeypatch.setattr(devices, "_why_no_cuda", lambda _: "no driver")
    assert [*map(str, devices.resolve_all(["auto:all"]))] == ["cpu"]


def test_a_device_that_is_not_there_is_said_with_the_reason():
    with pytest.raises(DeviceUnavailableError, match="--device cuda:99: torch"):
        devices.resolve("cuda:99")


def test_auto_is_cuda_where_it_works_and_cpu_elsewhere():
    has_cuda = torch.cuda.is_available()
    assert devices.resolve("auto").type in (("cuda", "cpu") if has_cuda else ("cpu",))
    assert str(devices.resolve("cpu")) == "cpu"
    assert "cores" in devices.describe(torch.device("cpu"))
