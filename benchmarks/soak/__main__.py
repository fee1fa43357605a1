"""Soak test: mixed calls of 64 callers with faults, every answer checked; exit status 1 on failure.

    python -m benchmarks.soak [--seconds S] [--calls N] [--callers N] [--seed N]

A server of two processes on loopback meets small and large Sample calls, packed clouds, uploads,
streams, Encode, Connect and REST, calls that are cancelled, that expire and that are broken, and
connections that break off, while a model comes and goes. A process is stopped for a second, killed,
and frozen until it is replaced; the server is killed and restarted once, and drained in the end
with the load still on. Fails when a call ended without a status, an answer was wrong or came twice,
or the server kept something of calls that had ended.
"""

import argparse
import asyncio
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack

import grpc

from benchmarks.common.report import describe
from benchmarks.soak.callers import COMING, OPTIONS, PATIENCE_S, Caller
from benchmarks.soak.cases import break_connection, make_cases
from benchmarks.soak.server import SoakServer
from benchmarks.soak.tally import FAILURES, Tally, judge_by_log, report
from farpoint.v1 import admin_pb2, admin_pb2_grpc
from farpoint_models import weights

CALLERS_PER_CONNECTION = 4
PAUSE_S = 1.0
LOOK_S = 1.0
BREAK_S = 0.2
MODEL_S = 1.0
DRAIN_LOAD_S = 1.0


class Soak:
    """One run.

    Attributes:
        faults: How many of each.
        problems: Failures other than those of calls.
    """

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments
        self.server, self.tally = SoakServer(), Tally()
        self.faults: Counter[str] = Counter()
        self.problems: list[str] = []
        self.seconds = 0.0
        self._cases = make_cases(arguments.seed)
        self._callers: list[Caller] = []

    async def run(self) -> None:
        """Starts the server, holds the load, lets it rest, and drains it under load."""
        print(f"the server is ready after {await asyncio.to_thread(self.server.start):.1f} s")
        async with AsyncExitStack() as stack:
            channels = [
                await stack.enter_async_context(
                    grpc.aio.insecure_channel(self.server.address, options=OPTIONS)
                )
                for _ in range(-(-self.arguments.callers // CALLERS_PER_CONNECTION))
            ]
            self._callers = [
                Caller(i, channels[i % len(channels)], self._cases, self.tally, self.server)
                for i in range(self.arguments.callers)
            ]
            await self._hold_load()
            await asyncio.to_thread(self._check_rest)
            await self._drain_under_load()
        judge_by_log(self.tally, self.server)

    async def _hold_load(self) -> None:
        begun = time.monotonic()
        ending = asyncio.Event()
        watching = [
            asyncio.ensure_future(task()) for task in (self._look, self._break, self._come_and_go)
        ]
        faults = asyncio.ensure_future(self._fault(begun))

        def is_over() -> bool:
            # The faults come to their end first, however short the time is.
            enough = self.tally.calls >= self.arguments.calls
            return faults.done() and (
                enough or ending.is_set() or time.monotonic() - begun > self.arguments.seconds
            )

        await self._run_callers(is_over)
        await faults
        self.seconds = time.monotonic() - begun
        for task in watching:
            if task.done():
                task.result()
            task.cancel()

    async def _run_callers(self, is_over: Callable[[], bool]) -> None:
        tasks = [asyncio.ensure_future(caller.run(is_over)) for caller in self._callers]
        over = asyncio.ensure_future(_until(is_over))
        await over
        done, pending = await asyncio.wait(tasks, timeout=PATIENCE_S + 15)
        for task in pending:  # its call has neither an answer nor a status
            task.cancel()
            self.tally.end("unknown", "lost", detail="a call that never ended")
        for task in done:
            task.result()

    async def _fault(self, begun: float) -> None:
        """Those of one life, a kill and a restart, and those of the second life."""
        for share, fault in (
            *((0.1, self._pause), (0.25, self._kill), (0.4, self._kill_process)),
            *((0.6, self._freeze), (0.8, self._kill_process)),
        ):
            await asyncio.sleep(begun + share * self.arguments.seconds - time.monotonic())
            await asyncio.to_thread(fault)

    def _pause(self) -> None:
        self.server.pause(0, PAUSE_S)
        self.faults["pauses"] += 1

    def _kill_process(self) -> None:
        self.server.end_process(self.faults["killed processes"] % 2, signal.SIGKILL)
        self.faults["killed processes"] += 1

    def _freeze(self) -> None:
        self.server.end_process(1, signal.SIGSTOP)
        self.faults["frozen processes"] += 1

    def _kill(self) -> None:
        self.server.kill()
        self.server.start()
        self.faults["kills and restarts"] += 1

    async def _look(self) -> None:
        while True:
            self.server.look()
            await asyncio.sleep(LOOK_S)

    async def _come_and_go(self) -> None:
        """Loads a model, has it used for a moment, and unloads it; the server may end meanwhile."""
        while True:
            begun, address = time.monotonic(), self.server.ready["admin_addresses"][0]
            async with grpc.aio.insecure_channel(address) as channel:
                stub = admin_pb2_grpc.AdminServiceStub(channel)
                load = admin_pb2.LoadModelRequest(name=COMING, path=str(weights.DEFAULT))
                try:
                    await stub.LoadModel(load, timeout=PATIENCE_S)
                    await asyncio.sleep(MODEL_S)
                    await stub.UnloadModel(
                        admin_pb2.UnloadModelRequest(name=COMING), timeout=PATIENCE_S
                    )
                    self.faults["models that came and went"] += 1
                except grpc.aio.AioRpcError as error:
                    if not self.server.interrupts(begun):
                        self.problems.append(f"a model: {error.code().name}: {error.details()}")
                    await asyncio.sleep(MODEL_S)

    async def _break(self) -> None:
        chance = random.Random(self.arguments.seed)
        while True:
            await break_connection(self.server.address, chance)
            self.faults["broken connections"] += 1
            await asyncio.sleep(BREAK_S)

    def _check_rest(self) -> None:
        """Resources of calls end with them."""
        give_up = time.monotonic() + PATIENCE_S
        while any((left := self.server.left()).values()) and time.monotonic() < give_up:
            time.sleep(0.1)
        if any(left.values()):
            self.problems.append(f"kept when all calls had ended: {left}")

    async def _drain_under_load(self) -> None:
        drained = asyncio.Event()
        load = asyncio.ensure_future(self._run_callers(drained.is_set))
        await asyncio.sleep(DRAIN_LOAD_S)
        status, unanswered = await asyncio.to_thread(self.server.drain)
        drained.set()
        await load
        self.faults["drains under load"] += 1
        if (status, unanswered) != (0, 0):
            self.problems.append(f"drained with exit status {status}, {unanswered} unanswered")

    @property
    def failed(self) -> bool:
        return bool(self.problems) or any(self.tally.total(outcome) for outcome in FAILURES)


async def _until(is_over: Callable[[], bool]) -> None:
    while not is_over():
        await asyncio.sleep(0.05)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--calls", type=int, default=2_000_000, help="most calls")
    parser.add_argument("--callers", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0)
    machine = describe("grpcio", "torch", "numpy")
    print(", ".join(f"{key} {value}" for key, value in machine.items()))
    soak = Soak(parser.parse_args())
    try:
        asyncio.run(soak.run())
    finally:
        soak.server.stop()
    print(report(soak.tally, soak.server, soak.faults, soak.seconds))
    print("\n".join(soak.problems))
    sys.exit(soak.failed)


if __name__ == "__main__":
    main()
