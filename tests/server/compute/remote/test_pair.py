"""Compute in another process: the same answers and errors, and what either end's death costs."""

import asyncio
import json
import threading
from types import SimpleNamespace

import numpy as np
import pytest
from tests.support.compute.remote import EngineOf, front_end, local_compute
from tests.support.compute.scheduling import GatedEngine, cloud, clouds_of, settle, until

from farpoint_server import request_context
from farpoint_server.compute.remote import channel
from farpoint_server.compute.remote.region import write
from farpoint_server.compute.scheduler import DeviceScheduler
from farpoint_server.compute.work import Outcome
from farpoint_server.errors import (
    DeadlinePassedError,
    InvalidRequestError,
    NotFoundError,
    OverloadedError,
    TooLargeError,
)
from farpoint_server.kinds.batching import ModelOutput
from farpoint_server.kinds.method import MethodClouds, MethodWork, RandomRows, VoxelGrid
from farpoint_server.kinds.sample import Clouds, Samples, SampleWork

RANDOM = np.random.default_rng(5)
POINTS = RANDOM.normal(size=(3000, 3)).astype(np.float32)
LENGTHS, COUNTS = np.array([1000, 2000]), np.array([30, 700])
GRID = VoxelGrid(0.5, "mean", (0.1, 0.2, 0.3))
WORKS = {
    "samples": SampleWork(Clouds(POINTS, LENGTHS, COUNTS, np.array([5, 1999]))),
    "distances": SampleWork(Clouds(POINTS, LENGTHS, COUNTS, COUNTS, with_distances=True)),
    "radius": SampleWork(Clouds(POINTS, LENGTHS, COUNTS, COUNTS, covering_radius=0.7)),
    "many": SampleWork(clouds_of(RANDOM, *range(3, 103), with_distances=True)),
    "grid": MethodWork(MethodClouds(POINTS, LENGTHS, LENGTHS, GRID)),
    "grid64": MethodWork(MethodClouds(POINTS.astype(np.float64), LENGTHS, LENGTHS, GRID)),
    "random": MethodWork(MethodClouds(POINTS, LENGTHS, COUNTS, RandomRows((3, 1 << 63)))),
}


class HeldCompute:
    """Answers nothing by itself; a test does, or looks at what is asked of it."""

    is_bounded = False

    def __init__(self) -> None:
        self.asked: list[tuple[str, object, float | None]] = []
        self.answers: list[asyncio.Future] = []
        self.cancelled = 0

    async def run(self, work, timeout_s):
        answer = asyncio.get_running_loop().create_future()
        self.asked.append((request_context.caller.get(), work, timeout_s))
        self.answers.append(answer)
        try:
            return await answer
        except asyncio.CancelledError:
            self.cancelled += 1
            raise


def samples(*rows: int) -> Outcome[Samples]:
    return Outcome(Samples(np.array(rows, np.int32), None), 1.5, 2.5)


@pytest.fixture
async def held(tmp_path):
    """A compute that holds its calls, its engine, and the path of that."""
    compute = HeldCompute()
    engine = EngineOf(tmp_path / "engine", compute)
    yield SimpleNamespace(compute=compute, engine=engine, path=tmp_path / "engine")
    engine.server.stop()


@pytest.mark.parametrize("name", WORKS)
async def test_answers_are_those_of_this_process(tmp_path, name):
    compute = await local_compute()
    engine = EngineOf(tmp_path / "engine", compute)
    async with front_end(engine.path) as remote:
        expected = (await compute.run(WORKS[name], None)).result
        found = (await remote.run(WORKS[name], None)).result
    for ours, theirs in zip(found, expected, strict=True):
        assert (ours is None) == (theirs is None)
        np.testing.assert_array_equal(ours, theirs)
        assert ours is None or ours.dtype == theirs.dtype
    engine.server.stop()
    await compute.stop()


async def test_outputs_of_models_and_the_times_of_a_call_arrive(held):
    """Also those that are larger than the request."""
    outputs = {
        "scores": ModelOutput(RANDOM.normal(size=(5000, 40)), np.array([2000, 3000])),
        "logits": ModelOutput(np.ones((2, 4), np.float16), None),
    }
    async with front_end(held.path) as remote:
        call = asyncio.ensure_future(remote.run(WORKS["samples"], None))
        await until(lambda: held.compute.answers)
        held.compute.answers[0].set_result(Outcome(outputs, 1.5, 2.5))
        outcome = await call
    assert (outcome.queue_ms, outcome.compute_ms) == (1.5, 2.5)
    assert outcome.result.keys() == outputs.keys()
    for name, output in outputs.items():
        np.testing.assert_array_equal(outcome.result[name].values, output.values)
        np.testing.assert_equal(outcome.result[name].lengths, output.lengths)


async def test_the_engine_knows_the_caller_and_the_time_that_is_left(held):
    async with front_end(held.path) as remote:
        request_context.caller.set("token:ada")
        call = asyncio.ensure_future(remote.run(WORKS["random"], 2.5))
        await until(lambda: held.compute.asked)
        caller, work, timeout_s = held.compute.asked[0]
        held.compute.answers[0].set_result(samples(7))
        assert (await call).result.rows.tolist() == [7]
    assert (caller, timeout_s, work.clouds.method) == ("token:ada", 2.5, RandomRows((3, 1 << 63)))


@pytest.mark.parametrize(
    "error",
    [
        InvalidRequestError("points", "numbers", "nan"),
        OverloadedError("full", 70),
        TooLargeError("too large"),
        DeadlinePassedError("late"),
        NotFoundError("no model"),
    ],
)
async def test_errors_keep_type_text_and_details(held, error):
    async with front_end(held.path) as remote:
        call = asyncio.ensure_future(remote.run(WORKS["samples"], None))
        await until(lambda: held.compute.answers)
        held.compute.answers[0].set_exception(error)
        with pytest.raises(type(error)) as caught:
            await call
    assert str(caught.value) == str(error)
    assert caught.value.details() == error.details()


async def test_a_bug_in_the_engine_is_one_here_without_its_text(held):
    async with front_end(held.path) as remote:
        call = asyncio.ensure_future(remote.run(WORKS["samples"], None))
        await until(lambda: held.compute.answers)
        held.compute.answers[0].set_exception(KeyError("secret"))
        with pytest.raises(RuntimeError, match="KeyError") as caught:
            await call
    assert "secret" not in str(caught.value)


async def test_a_caller_that_leaves_cancels_its_work_and_its_memory_returns(held):
    """Its block is free once the engine has answered: until then the engine may write there."""
    async with front_end(held.path, region_bytes=1 << 16) as remote:
        for turn in range(5):  # a block is larger than half of the memory
            call = asyncio.ensure_future(remote.run(WORKS["samples"], None))
            await until(lambda: len(held.compute.answers) == turn + 1)  # noqa: B023
            with pytest.raises(OverloadedError, match="full"):
                await remote.run(WORKS["samples"], None)
            call.cancel()
            await until(lambda: held.compute.cancelled == turn + 1)  # noqa: B023
            await until(lambda: remote._engine.region._returned)


@pytest.mark.parametrize(
    ("devices", "points", "is_here"),
    [
        (["cpu"], 1000, True),
        (["cpu"], 20_000, True),
        (["cpu"], 400_000, False),
        (["cpu", "cuda:0"], 1000, True),
        (["cpu", "cuda:0"], 100_000, False),
        (["cuda:0"], 1000, False),
    ],
)
async def test_front_ends_run_what_is_short_for_a_cpu(held, devices, points, is_here):
    """Next to a GPU only what is small; what takes longer than a few milliseconds never."""
    held.engine.state["devices"] = [[device, ""] for device in devices]
    async with front_end(held.path) as remote:
        remote.start()
        call = asyncio.ensure_future(remote.run(cloud(points), None))
        await until(lambda: call.done() or held.compute.answers)
        assert call.done() == is_here
        for answer in held.compute.answers:
            answer.set_result(samples(0))
        assert (await call).result.rows.tolist() == [0]


async def is_whole(remote) -> None:
    """Waits until every block is free."""
    taken: list[tuple[int, int]] = []

    def take() -> bool:
        block = remote._engine.region.take(1 << 26)
        taken.extend([] if block is None else [block])
        return bool(taken)

    await until(take)
    remote._engine.region.free(taken[0])


async def test_a_block_is_free_only_once_nothing_writes_to_it(held, monkeypatch):
    """The thread that copies goes on when its caller leaves: of the request, and of the answer."""
    writes = [threading.Event(), threading.Event()]
    going = iter(writes)
    begun: list[int] = []

    def slow_write(block, arrays, arranged):
        if len(block) <= channel.INLINE_BYTES:
            return write(block, arrays, arranged)
        mine = next(going)
        begun.append(len(block))
        assert mine.wait(30)
        return write(block, arrays, arranged)

    large = np.zeros(1 << 20, np.int32)
    async with front_end(held.path) as remote:
        monkeypatch.setattr(channel, "write", slow_write)
        sending = asyncio.ensure_future(remote.run(cloud(1 << 18), None))
        await until(lambda: len(begun) == 1)
        sending.cancel()
        await settle()
        assert remote._engine.region.take(1 << 26) is None
        assert not sending.done()
        writes[0].set()
        with pytest.raises(asyncio.CancelledError):
            await sending
        await is_whole(remote)
        assert not held.compute.asked

        answered = asyncio.ensure_future(remote.run(cloud(10), None))
        await until(lambda: held.compute.answers)
        held.compute.answers[0].set_result(Outcome(Samples(large, None), 0.0, 0.0))
        await until(lambda: len(begun) == 2)  # in a block that the engine asked for
        answered.cancel()
        with pytest.raises(asyncio.CancelledError):
            await answered
        later = asyncio.ensure_future(remote.run(cloud(10), None))
        await until(lambda: len(held.compute.asked) == 2)  # after the engine has learned of it
        held.compute.answers[1].set_result(samples(0))
        await later
        del later  # its answer lies in a block
        assert remote._engine.region.take(1 << 26) is None
        writes[1].set()
        await is_whole(remote)


async def test_callers_take_equal_turns_whichever_front_ends_they_call(tmp_path):
    """One queue: a caller with calls at both front ends gets no more than one at the second."""
    most, least = range(400_000, 400_014), range(400_100, 400_104)  # more than half of a turn each
    engine = GatedEngine()
    scheduler = DeviceScheduler(engine, 1)  # a batch for each call
    scheduler.start()
    compute = SimpleNamespace(is_bounded=False, run=scheduler.run)
    server = EngineOf(tmp_path / "engine", compute).server
    async with (
        front_end(tmp_path / "engine", 0) as first,
        front_end(tmp_path / "engine", 1) as second,
    ):
        calls = [asyncio.ensure_future(first.run(cloud(50), None))]  # holds the engine
        await until(lambda: engine.batches)
        request_context.caller.set("many")
        calls += [
            asyncio.ensure_future((first, second)[size % 2].run(cloud(size), None)) for size in most
        ]
        await until(lambda: scheduler.waiting_requests == len(most))
        request_context.caller.set("few")
        calls += [asyncio.ensure_future(second.run(cloud(size), None)) for size in least]
        await until(lambda: scheduler.waiting_requests == len(calls) - 1)
        engine.gate.set()
        await asyncio.gather(*calls)
    turns = [size in least for (size,) in engine.batches]
    assert sum(turns[: 2 * len(least) + 2]) == len(least)
    server.stop()
    await scheduler.stop()


async def test_calls_by_name_go_both_ways(tmp_path):
    async def shout(data: bytes) -> bytes:
        return data.upper()

    async def refuse(_: bytes) -> bytes:
        raise NotFoundError("no such model")

    engine = EngineOf(tmp_path / "engine", HeldCompute(), {"shout": shout, "refuse": refuse})
    async with front_end(engine.path, 1, handlers={"shout": shout}) as remote:
        assert await remote.ask("shout", b"a\nb") == b"A\nB"
        with pytest.raises(NotFoundError, match="no such model"):
            await remote.ask("refuse")
        assert await engine.server.ask_all("shout", b"c") == {1: b"C"}
    engine.server.stop()


async def test_front_ends_know_the_state_before_a_change_is_published(tmp_path):
    seen = []

    async def take(data: bytes) -> bytes:
        seen.append(json.loads(data)["devices"])
        return b""

    engine = EngineOf(tmp_path / "engine", HeldCompute())
    async with front_end(engine.path, handlers={"state": take}) as remote:
        assert (str(*remote.devices), remote.describe()) == ("cuda:0", [("cuda:0", "a GPU")])
        assert remote.inline_ns == -1  # there is no CPU among the devices
        await engine.server.publish()
        assert seen == [[["cuda:0", "a GPU"]]] * 2
    engine.server.stop()
