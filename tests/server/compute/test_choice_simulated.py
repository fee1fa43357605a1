"""A simulation: `--device auto` next to each of its devices, with service times of an H200's node.

Service times come from measurements of 28 November 2026 on an H200 with 16 cores: calls a second of
a server on either device with many callers, p50 with one, and times of kernels. Scheduler, queues,
costs and placement are the server's; time and engines are not. So it shows what the choice costs,
not what a server reaches.
"""

import asyncio
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from tests.support.compute.scheduling import VirtualTimeLoop, run_in_virtual_time

from farpoint_server.compute.cpu import MANY_CORES_NS
from farpoint_server.compute.placement import Placement
from farpoint_server.compute.scheduler import DeviceScheduler
from farpoint_server.kinds.sample import Clouds, Samples, SampleWork

MS = 1e-3
SECONDS, WARM_UP = 0.5, 0.25
AT_ONCE = 8
LONG_NS, BATCH_POINTS = 30_000_000, 1 << 20
SHARE_OF_LOOP = 0.6


@dataclass(frozen=True)
class Load:
    """Calls of one kind, and what was measured of them on a device each (GPU, CPU)."""

    points: int
    samples: int
    clouds: int
    rates: tuple[float, float]
    """Calls a second of a server with many callers."""
    alone_ms: tuple[float, float]
    """p50 with one caller."""
    kernel_ms: tuple[float, float]
    """Of the GPU, for one call and for 16."""

    def work(self) -> SampleWork:
        each = np.ones(self.clouds, np.int64)
        flat = np.zeros((self.clouds * self.points, 3), np.float32)
        return SampleWork(Clouds(flat, self.points * each, self.samples * each, 0 * each))

    @property
    def is_inline(self) -> bool:
        return self.work().cost_ns("cpu") <= MANY_CORES_NS

    @property
    def gpu_host_s(self) -> float:
        """Seconds of the interpreter for a call on a GPU, which bounds its rate."""
        return 1 / self.rates[0]

    @property
    def loop_s(self) -> float:
        """Seconds of the event loop for a call on either device: receive, check, answer."""
        most = 1 / self.rates[1] if self.is_inline else SHARE_OF_LOOP * self.gpu_host_s
        return min(most, SHARE_OF_LOOP * self.gpu_host_s)


SMALL = Load(1024, 64, 1, (2167, 3844), (2.00, 0.71), (0.04, 0.04))
MIDDLE = Load(16_384, 4096, 1, (1311, 828), (3.90, 2.84), (1.70, 1.84))
LARGE = Load(120_000, 4096, 1, (679, 631), (5.64, 4.86), (2.15, 2.92))
MANY_SMALL = Load(1024, 64, 64, (797, 608), (3.14, 3.07), (0.04, 0.05))
# With one caller not measured: two milliseconds of copies and kernel, and a core for each cloud.
MANY_MIDDLE = Load(16_384, 4096, 32, (225, 203), (8.0, 9.0), (1.84, 4.4))
LOADS = [
    *((SMALL, 1), (SMALL, 64), (SMALL, 256), (LARGE, 1), (LARGE, 16)),
    *((MIDDLE, 1), (MIDDLE, 64), (MANY_SMALL, 1), (MANY_SMALL, 16), (MANY_MIDDLE, 8)),
]


class Engine:
    """Answers after the load's times."""

    inline_ns = -1
    at_once = 1
    background: "Engine | None" = None

    def __init__(self, load: Load) -> None:
        self.load = load

    @property
    def loop(self) -> VirtualTimeLoop:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualTimeLoop)
        return loop

    def is_ready(self, _wake: object) -> bool:
        return True


class Cpu(Engine):
    """Batches share the cores; with few of them each takes as long as alone."""

    device_type = "cpu"
    at_once = depth = AT_ONCE

    def __init__(self, load: Load, background: "Cpu | None" = None) -> None:
        super().__init__(load)
        self.background, self.running = background, 0
        self.inline_ns = -1 if background is None else MANY_CORES_NS

    def inline(self, _work: Any) -> Samples | None:
        if self.running:
            return None
        self.loop.spend(max(0, 1 / self.load.rates[1] - self.load.loop_s))
        return answer()

    async def submit(self, batch: Any) -> list[Samples]:
        self.running += 1
        alone_s = self.load.alone_ms[1] * MS - self.load.loop_s
        shared_s = self.running / self.load.rates[1]
        await asyncio.sleep(len(batch) * max(alone_s, shared_s))
        self.running -= 1
        return [answer()] * len(batch)


class Gpu(Engine):
    """A batch is begun by the interpreter, then runs next to others."""

    device_type = "cuda"
    depth = 4

    async def submit(self, batch: Any) -> list[Samples]:
        load, (one, sixteen) = self.load, self.load.kernel_ms
        self.loop.spend(len(batch) * (load.gpu_host_s - load.loop_s))
        kernel_s = MS * (one + (sixteen - one) * (len(batch) - 1) / 15)
        hops_s = MS * (load.alone_ms[0] - one) - load.gpu_host_s
        await asyncio.sleep(kernel_s + max(0, hops_s))
        return [answer()] * len(batch)


def answer() -> Samples:
    return Samples(np.zeros(1, np.int32), None)


async def calls_a_second(load: Load, callers: int, *devices: str) -> float:
    """Of callers that send their next call when they have the answer to the last."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualTimeLoop)
    made = {"cpu": lambda: Cpu(load, Cpu(load)), "cuda": lambda: Gpu(load)}
    schedulers = [
        DeviceScheduler(
            made[device](),
            BATCH_POINTS,
            long_ns=LONG_NS,
            batch_ns=LONG_NS if device == "cpu" else None,
            clock=loop.time,
        )
        for device in devices
    ]
    for scheduler in schedulers:
        scheduler.start()
    placement, done = Placement(schedulers), 0

    async def call_on() -> None:
        nonlocal done
        work = load.work()
        while True:
            loop.spend(load.loop_s)
            # As small messages are: by an idle CPU if there is one, else wherever is best.
            inline = [each for each in schedulers if load.is_inline and each.engine.inline_ns > 0]
            if not any(each.run_inline(work) for each in inline):
                await placement.run(work, None)
            else:
                await asyncio.sleep(0)
            done += loop.time() > WARM_UP

    tasks = [asyncio.create_task(call_on()) for _ in range(callers)]
    while loop.time() < WARM_UP + SECONDS:
        await asyncio.sleep(SECONDS / 10)
    for task in tasks:
        task.cancel()
    for scheduler in schedulers:
        await scheduler.stop()
    return done / (loop.time() - WARM_UP)


@pytest.mark.parametrize(("load", "callers"), LOADS)
def test_the_choice_is_as_good_as_the_better_device(load, callers):
    gpu, cpu, auto = (
        run_in_virtual_time(calls_a_second(load, callers, *devices))
        for devices in (("cuda",), ("cpu",), ("cpu", "cuda"))
    )
    print(f"\n{load.points} x {load.clouds}, {callers} callers: {gpu:.0f} {cpu:.0f} {auto:.0f}")
    assert auto >= 0.95 * max(gpu, cpu)
