"""An engine or a front end as a program, to be killed.

python -m tests.support.compute.remote_process engine PATH
python -m tests.support.compute.remote_process front-end PATH INDEX
"""

import asyncio
import os
import random
import sys
from pathlib import Path

import numpy as np
from tests.support.compute.remote import EngineOf, front_end

from farpoint_server.compute.work import Outcome
from farpoint_server.kinds.sample import Clouds, Samples, SampleWork

SAMPLES = 50


class BitsCompute:
    """Answers with the bits of the first coordinates, after a while."""

    is_bounded = False

    def __init__(self) -> None:
        self.running = 0
        self._random = random.Random(os.getpid())

    async def run(self, work, _):
        self.running += 1
        try:
            await asyncio.sleep(self._random.choice([0, 0, 0.001, 0.005]))
            return Outcome(Samples(expected(work), None), 0.0, 0.0)
        finally:
            self.running -= 1


def any_work(choices: np.random.Generator) -> SampleWork:
    """A cloud of its own; some have megabytes."""
    points = int(choices.choice([SAMPLES, 1000, 1000, 1000, 100_000]))
    one = np.ones(1, np.int64)
    cloud = choices.random((points, 3), np.float32)
    return SampleWork(Clouds(cloud, one * points, one * SAMPLES, one * 0))


def expected(work: SampleWork) -> np.ndarray:
    """The answer of `BitsCompute`."""
    return np.array(work.clouds.points[:SAMPLES]).view(np.int32)[:, 0].copy()


async def call(remote, choices: np.random.Generator) -> None:
    """Sends one call and checks its answer; raises what it raises."""
    work = any_work(choices)
    outcome = await remote.run(work, None)
    np.testing.assert_array_equal(outcome.result.rows, expected(work))


async def serve(path: Path) -> None:
    """Serves until it is killed."""
    EngineOf(path, BitsCompute())
    await asyncio.Event().wait()


async def load(path: Path, index: int) -> None:
    """Calls until it is killed; a wrong answer ends it with status 1."""

    async def caller(seed: int) -> None:
        choices = np.random.default_rng(seed)
        while True:
            await call(remote, choices)

    async with front_end(path, index) as remote:
        await asyncio.gather(*[caller(index * 100 + seed) for seed in range(8)])


if __name__ == "__main__":
    _, role, where, *rest = sys.argv
    asyncio.run(serve(Path(where)) if role == "engine" else load(Path(where), int(*rest)))
