"""A server on a core of its own, and what its requests cost there."""

import asyncio
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from benchmarks.sizing.model import Cost
from farpoint.cli.bench.load import Call
from farpoint.cli.bench.mix import Kind, make_requests
from farpoint.v1 import sampling_pb2 as pb
from farpoint_server.engine.sample import SampleWork
from farpoint_server.engine.types import Clouds

SERVER_CORE, CALLER_CORE = 0, 1
# Enough that the server always has something to do, and few enough that nothing queues for long.
CALLERS = 16
READY_S = 120


@dataclass(frozen=True)
class Server:
    """A process of farpoint-server on one core."""

    address: str
    pid: int

    def cpu_s(self) -> float:
        """Seconds that its threads have run, to the nanosecond."""
        tasks = Path(f"/proc/{self.pid}/task").glob("*/schedstat")
        return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9


@contextmanager
def server_on_one_core(port: int = 50987) -> Iterator[Server]:
    """Starts it; the calling process moves to the other core."""
    address = f"127.0.0.1:{port}"
    command = [sys.executable, "-m", "farpoint_server", "--listen", address, "--device", "cpu"]
    process = subprocess.Popen(
        [*command, "--log-format", "json"],
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: os.sched_setaffinity(0, {SERVER_CORE}),
    )
    assert process.stderr is not None
    try:
        while "ready" not in (line := process.stderr.readline()):
            if not line:
                raise RuntimeError(f"the server ended with {process.wait()}")
        # Its log must be read, and reading it must cost the server's core nothing.
        drain = subprocess.Popen(["cat"], stdin=process.stderr, stdout=subprocess.DEVNULL)
        os.sched_setaffinity(0, {CALLER_CORE})
        os.sched_setaffinity(drain.pid, {CALLER_CORE})
        yield Server(address, process.pid)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def kernel_s(kind: Kind, request: bytes, seconds: float) -> float:
    """Of a core in the kernel for one request of a kind: the median of some seconds of them."""
    torch.set_num_threads(1)
    points = np.frombuffer(pb.SampleRequest.FromString(request).points.data, np.float32)
    one = np.ones(1, np.int64)
    clouds = Clouds(
        points.reshape(-1, 3).copy(), one * kind.points, one * kind.samples, one - 1, True
    )
    took: list[float] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(took) < 3:
        begun = time.thread_time()
        SampleWork.batch([SampleWork(clouds)]).run(torch.device("cpu"), None)
        took.append(time.thread_time() - begun)
    return statistics.median(took)


async def closed_loop_per_s(
    call: Call, requests: Sequence[bytes], kinds: Sequence[int], callers: int
) -> float:
    """Calls a second of callers who call again as soon as they have an answer."""
    turns, begun = iter(kinds), time.perf_counter()

    async def caller() -> None:
        for kind in turns:
            await call(requests[kind])

    await asyncio.gather(*(caller() for _ in range(callers)))
    return len(kinds) / (time.perf_counter() - begun)


async def cost_of(server: Server, call: Call, kind: Kind, seconds: float) -> Cost:
    """What a kind of request takes, by some seconds of it alone."""
    (request,) = make_requests([kind], None, seed=0)
    latencies: list[float] = []
    end = time.perf_counter() + seconds / 2
    while time.perf_counter() < end or len(latencies) < 5:
        begun = time.perf_counter()
        await call(request)
        latencies.append(time.perf_counter() - begun)
    alone_s = statistics.median(latencies)
    calls = max(CALLERS, int(seconds / alone_s))
    before, own_before = server.cpu_s(), time.process_time()
    await closed_loop_per_s(call, [request], [0] * calls, CALLERS)
    total_s = (server.cpu_s() - before) / calls
    caller = (time.process_time() - own_before) / calls
    kernel = kernel_s(kind, request, seconds / 4)
    wire = max(total_s - kernel, 0.0)
    away = max(alone_s - total_s - caller, 0.0)
    return Cost(kind.points, kind.samples, kernel, wire, caller, away)
