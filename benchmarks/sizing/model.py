"""One server: its own scheduler, before engines and an event loop that only take time."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar, cast
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from benchmarks.sizing.virtual import Cores, VirtualLoop, simulate
from farpoint.cli.bench.load import Arrivals, Measured
from farpoint_server.engine.sample import POINT_NS, SAMPLE_NS
from farpoint_server.engine.thread import inline_limit_ns
from farpoint_server.engine.types import Outcome
from farpoint_server.scheduling import lane
from farpoint_server.scheduling.batcher import Batcher

T = TypeVar("T")
# As in config/settings.py.
BATCH_POINTS, LONG_NS = 1 << 20, 30_000_000
# Of a thread of niceness 10 beside one of 0, under Linux's scheduler.
BACKGROUND_WEIGHT = 110 / 1024
# What of a request's work on the event loop comes before its turn at an engine.
BEFORE = 0.6


@dataclass(frozen=True)
class Cost:
    """What a request of one kind takes; measured, see calibrate.py.

    Attributes:
        points, samples: of its cloud.
        kernel_s: of a core, in the kernel.
        wire_s: of a core, for all else that the server does.
        caller_s: of the caller's core.
        away_s: the rest of what a call takes that meets no other.
    """

    points: int
    samples: int
    kernel_s: float
    wire_s: float
    caller_s: float
    away_s: float


class Work:
    """What the scheduler is told of a request; its prediction is the server's."""

    shares_launch: ClassVar[bool] = True
    kind = "sample"
    launch = "sample"

    def __init__(self, cost: Cost) -> None:
        self.kernel_s = cost.kernel_s
        self.point_count = cost.points
        self.cost_ns = POINT_NS * cost.points + SAMPLE_NS * cost.samples

    @staticmethod
    def batch(requests: "Sequence[Work]") -> "WorkBatch":
        return WorkBatch(requests)


class WorkBatch:
    """Requests that run together, one after the other on a CPU."""

    def __init__(self, requests: Sequence[Work]) -> None:
        self.requests = requests
        self.point_count = sum(work.point_count for work in requests)
        self.kernel_s = sum(work.kernel_s for work in requests)

    def give_up(self, index: int) -> None:
        """Nobody leaves in a simulation."""


class Engine:
    """An engine of a CPU that takes as long as its work was measured to take."""

    depth = 1

    def __init__(self, cores: Cores, threads: int, weight: float, inline_ns: int) -> None:
        self._cores, self._threads, self._weight = cores, threads, weight
        self.inline_ns = inline_ns
        self.batches = 0
        self._is_idle = True

    async def run(self, batch: Any) -> list[Any]:
        self._is_idle = False
        self.batches += 1
        await self._cores.run(batch.kernel_s, self._threads, self._weight)
        self._is_idle = True
        return [None] * len(batch.requests)

    def run_inline_if_idle(self, work: Any) -> Any:
        """Its time is the event loop's, which `Node.call` has it pay."""
        return work if self._is_idle else None


class Node:
    """A server of some cores.

    Args:
        cores: of the process.
        costs: of each kind of request.
    """

    def __init__(self, cores: int, costs: Sequence[Cost]) -> None:
        self.cores = Cores(cores)
        self.costs = costs
        self._turn = asyncio.Lock()
        self.short = Engine(self.cores, cores, 1.0, inline_limit_ns(cores))
        self.long = Engine(self.cores, cores, BACKGROUND_WEIGHT, -1)
        self._batcher = Batcher(
            [self.short], BATCH_POINTS, background=[self.long], long_ns=LONG_NS, batch_ns=LONG_NS
        )
        self._batcher.start()

    async def call(self, kind: int) -> None:
        """A request from its arrival to its answer."""
        cost = self.costs[kind]
        work = Work(cost)
        await self._on_the_loop(BEFORE * cost.wire_s)
        outcome: Outcome[Any] = await self._batcher.run(cast(Any, work), None)
        inline_s = cost.kernel_s if outcome.result is work else 0.0
        await self._on_the_loop((1 - BEFORE) * cost.wire_s + inline_s)

    async def _on_the_loop(self, seconds: float) -> None:
        async with self._turn:
            await self.cores.run(seconds)


def run(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Runs a simulation, whose clock is also the one that the scheduler measures batches by."""
    loop = VirtualLoop()
    with patch.object(lane, "time", loop):
        return simulate(loop, main())


async def open_loop(
    nodes: Sequence[Node],
    arrivals: Arrivals,
    places: NDArray[np.int64],
    caller: asyncio.Lock | None = None,
) -> Measured:
    """Calls when they are due; as `farpoint.cli.bench.load.offer`.

    Args:
        nodes: any number.
        arrivals: of n calls.
        places: shape (n,): the node that each call goes to.
        caller: serves the calls of a single process in turn; without it each has its own.
    """
    loop, measured = asyncio.get_running_loop(), Measured()

    async def one(node: Node, kind: int, due: float) -> None:
        await _at_both_ends(node, kind, caller)
        measured.latency_ms.append((loop.time() - due + node.costs[kind].away_s) * 1e3)

    running = set()
    every = zip(arrivals.due_s.tolist(), arrivals.kinds.tolist(), places.tolist(), strict=True)
    for due, kind, place in every:
        await asyncio.sleep(due - loop.time())
        task = asyncio.ensure_future(one(nodes[place], kind, due))
        running.add(task)
        task.add_done_callback(running.discard)
    await asyncio.gather(*running)
    measured.seconds = loop.time()
    return measured


async def closed_loop(node: Node, callers: int, kinds: Sequence[int]) -> float:
    """Calls a second of callers in one process who call again as soon as they have an answer."""
    loop, turns, process = asyncio.get_running_loop(), iter(kinds), asyncio.Lock()

    async def caller() -> None:
        for kind in turns:
            await _at_both_ends(node, kind, process)
            await asyncio.sleep(node.costs[kind].away_s)

    await asyncio.gather(*(caller() for _ in range(callers)))
    return len(kinds) / loop.time()


async def _at_both_ends(node: Node, kind: int, caller: asyncio.Lock | None) -> None:
    """A call, with the caller's half of its own work before and after it."""
    half = node.costs[kind].caller_s / 2
    async with caller or nullcontext():
        await asyncio.sleep(half)
    await node.call(kind)
    async with caller or nullcontext():
        await asyncio.sleep(half)
