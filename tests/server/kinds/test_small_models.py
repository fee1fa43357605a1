"""Small models on the event loop: what arrives together is one call, and what is slow leaves."""

import asyncio
import threading
import time
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from torch import Tensor

from farpoint_models.programs import Batching, Manifest, Role, TensorSpec
from farpoint_server.compute.cpu import CpuEngine
from farpoint_server.compute.scheduler import DeviceScheduler
from farpoint_server.errors import InvalidRequestError
from farpoint_server.kinds.batching import ModelInput
from farpoint_server.kinds.model import LoadedModel, ModelWork

CPU = torch.device("cpu")
MANIFEST = Manifest(
    Batching.EQUAL,
    (TensorSpec("xyz", Role.POINTS, "float32", ("B", "N", 3)),),
    (TensorSpec("sums", Role.PER_CLOUD, "float32", ("B", 3)),),
)
SMALL_NS, LARGE_NS = 20_000, 50_000_000


class Calls:
    """Sums of clouds; remembers the thread and the clouds of each call."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds = seconds
        self.clouds: list[int] = []
        self.threads: list[str] = []

    def __call__(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        self.clouds.append(len(inputs[0]))
        self.threads.append(threading.current_thread().name)
        begun = time.thread_time()
        while time.thread_time() - begun < self.seconds:
            pass
        if inputs[0].isnan().any():
            raise ValueError("NaN")
        return [inputs[0].sum(1)]


@pytest.fixture
async def scheduler():
    engine = CpuEngine(1)
    scheduler = DeviceScheduler(engine, batch_points=10_000)
    scheduler.start()
    yield scheduler
    await scheduler.stop()
    engine.close()


def model_of(calls: Calls, call_ns: int = SMALL_NS, *, is_steady: bool = True) -> LoadedModel:
    model = LoadedModel("mine", MANIFEST, is_steady=is_steady)
    model.first_calls["cpu"] = 8, call_ns
    model.put(CPU, calls)
    return model


async def run(scheduler, model: LoadedModel, *values: float):
    """The sums of a cloud of each value, from requests that arrive together."""
    requests = [np.full((8, 3), value, np.float32) for value in values]
    works = [ModelWork(model, ModelInput(np.array([8]), {"xyz": xyz})) for xyz in requests]
    outcomes = await asyncio.gather(
        *(scheduler.run(work, None) for work in works), return_exceptions=True
    )
    return [each if isinstance(each, Exception) else each.result["sums"] for each in outcomes]


async def test_requests_that_arrive_together_are_one_call_on_the_event_loop(scheduler):
    calls = Calls()
    answers = await run(scheduler, model_of(calls), 1, 2, 3)
    assert [answer.values[0, 0] for answer in answers] == [8, 16, 24]
    assert calls.clouds == [3]
    assert calls.threads == [threading.current_thread().name]


@pytest.mark.parametrize(
    "model",
    [
        lambda calls: model_of(calls, LARGE_NS),
        lambda calls: model_of(calls, is_steady=False),
    ],
    ids=["predicted to be long", "whose time depends on values"],
)
async def test_other_models_run_on_a_thread_of_the_engine(scheduler, model):
    calls = Calls()
    await run(scheduler, model(calls), 1)
    assert calls.threads == ["engine-cpu"]


async def test_a_batch_that_is_predicted_to_be_long_runs_on_a_thread_of_the_engine(scheduler):
    calls = Calls()
    most = scheduler.engine.inline_batch_ns // SMALL_NS
    await run(scheduler, model_of(calls), *range(most + 1))
    assert (calls.clouds, calls.threads) == ([most + 1], ["engine-cpu"])


async def test_a_model_that_outlasts_its_prediction_leaves_the_event_loop(scheduler):
    calls = Calls(seconds=3 * scheduler.engine.inline_batch_ns / 1e9)
    model = model_of(calls)
    for value in (1, 2):
        await run(scheduler, model, value)
    assert calls.threads == [threading.current_thread().name, "engine-cpu"]


async def test_a_request_that_fails_there_fails_alone(scheduler):
    good, bad = await run(scheduler, model_of(Calls()), 1, float("nan"))
    assert good.values[0, 0] == 8
    assert isinstance(bad, InvalidRequestError)
