"""Batches on the real engine, its devices and its thread."""

import asyncio
import gc
import threading
import time
import weakref

import numpy as np
import pytest
import torch

from farpoint_server.engine import devices
from farpoint_server.engine.engine import Engine
from farpoint_server.engine.sample import SampleBatch
from farpoint_server.engine.thread import EngineThread
from farpoint_server.engine.types import Clouds
from farpoint_server.errors import DeviceUnavailableError, clear_tracebacks

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


@pytest.fixture
def thread():
    thread = EngineThread("engine", lambda: None)
    yield thread
    thread.stop()


class Work:
    """Something large that a function holds."""

    def done(self) -> str:
        return "done"

    def fail(self) -> str:
        raise ValueError("failed")


async def test_functions_run_in_order_on_one_thread_that_was_prepared_first():
    ran = []
    thread = EngineThread("engine", lambda: ran.append(threading.get_ident()))
    names = await asyncio.gather(*(thread.call(threading.get_ident) for _ in range(3)))
    assert set(names) == set(ran)
    assert len(ran) == 1
    thread.stop()


async def test_what_a_function_raises_is_raised_to_its_caller_alone(thread):
    failed, served = thread.call(Work().fail), thread.call(Work().done)
    with pytest.raises(ValueError, match="failed"):
        await failed
    assert await served == "done"


async def test_a_function_that_is_given_up_before_its_turn_does_not_run(thread):
    turn, ran = threading.Event(), []
    first, second = thread.call(turn.wait), thread.call(lambda: ran.append(1))
    second.cancel()
    turn.set()
    await first
    await thread.call(lambda: None)
    assert ran == []


@pytest.mark.parametrize("function", [Work.done, Work.fail])
async def test_nothing_of_a_function_is_kept_while_the_thread_waits(thread, function):
    gc.collect()
    gc.disable()
    work = Work()
    kept = weakref.ref(work)
    answer = thread.call(lambda held=work: function(held))
    try:
        await answer
    except ValueError as error:
        clear_tracebacks(error)
    del work, answer
    give_up = time.monotonic() + 30
    while kept() is not None and time.monotonic() < give_up:  # the thread may be slow to go on
        await asyncio.sleep(0.001)
    found = kept()
    gc.enable()
    assert found is None
