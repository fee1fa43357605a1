"""Encode on the queue of the batcher: watched, one at a time, and in turns with Sample."""

import asyncio
import threading

import numpy as np
import pytest
import torch

from farpoint_models import DensityEncoder, EncoderConfig
from farpoint_server.engine.engine import Engine
from farpoint_server.engine.types import EncoderInput
from farpoint_server.errors import EngineHungError
from farpoint_server.models.forward import EncodeWork
from farpoint_server.scheduling.batcher import Batcher
from farpoint_server.scheduling.watchdog import Watchdog

CONFIG = EncoderConfig(rates=(0.5,), channels=4, hidden=4, neighbors=4, groups=2)
CLOUD = EncoderInput(
    np.random.default_rng(0).random((50, 3), np.float32),
    np.empty((50, 0), np.float32),
    np.array([50]),
)


class Hook:
    """Holds every forward pass back until `release` is set."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.release = threading.Event()

    def __call__(self, *_: object) -> None:
        self.begun.set()
        assert self.release.wait(60)


@pytest.fixture
def engines():
    engines = [Engine(torch.device("cpu"), 1) for _ in range(2)]
    yield engines
    for engine in engines:
        engine.stop()


@pytest.fixture
def hook():
    hook = Hook()
    yield hook
    hook.release.set()


@pytest.fixture
def model(engines, hook):
    encoder = DensityEncoder(CONFIG).eval()
    encoder.register_forward_pre_hook(hook)
    return {engine.device: encoder for engine in engines}


@pytest.fixture
async def batcher_of():
    """Makes batchers that serve."""
    made: list[Batcher] = []

    def make(*arguments: object) -> Batcher:
        made.append(Batcher(*arguments))
        made[-1].start()
        return made[-1]

    yield make
    for batcher in made:
        await batcher.stop()


async def until(condition) -> None:
    async def poll() -> None:
        while not condition():
            await asyncio.sleep(0.005)

    await asyncio.wait_for(poll(), 60)


async def test_an_encode_alone_shows_that_an_engine_hangs(engines, model, hook, batcher_of):
    said: list[bool] = []
    watchdog = Watchdog(0.05, 1, said.append)
    batcher = batcher_of(engines[:1], 1000, watchdog)
    running, waiting = (
        asyncio.create_task(batcher.run(EncodeWork(model, CLOUD), None)) for _ in range(2)
    )
    for task in (running, waiting):
        with pytest.raises(EngineHungError):
            await task
    assert said == [False]
    watchdog.limit_s = None  # what runs from now on may take its time
    with pytest.raises(EngineHungError):
        await batcher.run(EncodeWork(model, CLOUD), None)
    hook.release.set()
    await until(lambda: not watchdog.all_hung)
    assert said == [False, True]
    encoded = await batcher.run(EncodeWork(model, CLOUD), None)
    assert encoded.result[0].counts.sum() == 50


async def test_a_forward_whose_caller_has_left_is_still_watched(engines, model, hook, batcher_of):
    """However short the callers' deadlines are, an engine that hangs is noticed."""
    watchdog = Watchdog(0.1, 1)
    batcher = batcher_of(engines[:1], 1000, watchdog)
    call = asyncio.create_task(batcher.run(EncodeWork(model, CLOUD), None))
    await asyncio.to_thread(hook.begun.wait, 60)
    call.cancel()
    await until(lambda: watchdog.all_hung)
