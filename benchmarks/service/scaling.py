"""Several server processes against one, at many callers, with the callers' CPU taken out.

    python -m benchmarks.service.scaling [--processes 1,2] [--callers 64] [--rounds 5] [--seconds 3]

All servers are up at once and those that are not measured are stopped (SIGSTOP); each is measured
in each round, every other round backwards, and the figures are medians of the rounds.

The callers run on the same cores, so what they take is taken from the server. What the server would
do with callers elsewhere follows from the CPU time of a call, which is measured, by the law of
bottlenecks: as often as its busiest threads allow (one event loop in each process), and as often as
all cores allow.

    bound of N processes on C cores = min(N / CPU of the busiest thread, C / CPU of all) a call

That it holds is seen at one process where its busiest thread is busy all of the time: calls a
second are what its bound says.
"""

import argparse
import asyncio
import multiprocessing
import os
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import AsyncExitStack, ExitStack, suppress
from pathlib import Path
from statistics import median
from typing import Any

import grpc

from benchmarks.common.point_sets import lidar
from benchmarks.common.report import Row, shown
from benchmarks.service.load import SAMPLE, UNLIMITED, percentiles_ms, request
from benchmarks.service.processes import TICKS, Server, serving_farpoint

# Points and samples of a request. The last two move as many bytes; one of them has no work to do.
CASES = ((1024, 64), (1024, 1024), (120_000, 1), (120_000, 1024))
OWN_CONNECTION = (*UNLIMITED, ("grpc.use_local_subchannel_pool", 1))
SPAWN = multiprocessing.get_context("spawn")


async def call_all(
    address: str, data: bytes, callers: int, seconds: float, begin: Callable[[], object]
) -> Row:
    """Calls in a closed loop, each caller with a connection: latencies and CPU of this process."""
    latencies: list[float] = []
    async with AsyncExitStack() as stack:
        channels = [
            await stack.enter_async_context(
                grpc.aio.insecure_channel(address, options=OWN_CONNECTION)
            )
            for _ in range(callers)
        ]
        calls = [channel.unary_unary(SAMPLE) for channel in channels]
        await asyncio.gather(*(call(data) for call in calls))
        begin()
        begun, cpu = time.perf_counter(), time.process_time()

        async def caller(call: Any) -> None:
            sent = begun
            while sent < begun + seconds:
                sent = time.perf_counter()
                await call(data)
                latencies.append(time.perf_counter() - sent)

        await asyncio.gather(*map(caller, calls))
        elapsed = time.perf_counter() - begun
    per_s, cores = len(latencies) / elapsed, (time.process_time() - cpu) / elapsed
    return {"latencies": latencies, "per_s": per_s, "caller_cores": cores}


def _call_in_process(gate: Any, found: Any, *arguments: Any) -> None:
    def begin() -> None:
        gate.wait()  # connected
        gate.wait()  # all are

    found.put(asyncio.run(call_all(*arguments, begin)))


def crowd(
    address: str, data: bytes, callers: int, seconds: float, count: int, look: Callable[[], object]
) -> Row:
    """Has callers in `count` processes call at the same time: calls/s, p50 and p99, their cores.

    `look` is called when all are connected and have called once, before they begin. One event loop
    is as busy as that of the server, so one process of callers would be slow.
    """
    gate, found = SPAWN.Barrier(count + 1), SPAWN.Queue()
    arguments = (gate, found, address, data, callers // count, seconds)
    for _ in range(count):
        SPAWN.Process(target=_call_in_process, args=arguments, daemon=True).start()
    gate.wait()
    look()
    gate.wait()
    seen = [found.get() for _ in range(count)]
    latencies = [s for each in seen for s in each["latencies"]]
    sums = {key: sum(each[key] for each in seen) for key in ("per_s", "caller_cores")}
    return {"calls": len(latencies), **percentiles_ms(latencies), **sums}


def threads_of(server: Server) -> dict[tuple[int, int], float]:
    """CPU seconds of each thread of each process."""
    seconds = {}
    for pid in server.tree():
        for task in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError):
                fields = (task / "stat").read_text().rpartition(")")[2].split()
                seconds[pid, int(task.name)] = (int(fields[11]) + int(fields[12])) / TICKS
    return seconds


def measure(server: Server, data: bytes, callers: int, seconds: float, cores: int) -> Row:
    """One turn of one server."""
    before: dict[tuple[int, int], float] = {}
    with server.awake():
        look = lambda: before.update(threads_of(server))  # noqa: E731
        row = crowd(server.address, data, callers, seconds, min(cores, callers), look)
        after = threads_of(server)
    count = max(1, len(server.tree()) - 1)  # of several, one more supervises
    used = {thread: cpu - before.get(thread, 0.0) for thread, cpu in after.items()}
    calls, elapsed = row["calls"], row["calls"] / row["per_s"]
    processes = {pid: max(u for (p, _), u in used.items() if p == pid) for pid, _ in used}
    cpu, loop = sum(used.values()) / calls, sum(sorted(processes.values())[-count:]) / calls
    return {
        **row,
        "cpu_ms": 1e3 * cpu,
        "busiest_ms": 1e3 * loop,
        "server_cores": sum(used.values()) / elapsed,
        "busiest_share": max(processes.values()) / elapsed,
        "bound_per_s": min(count / loop, cores / cpu),
    }


def medians(rows: list[Row], base: list[Row]) -> Row:
    """The median of each figure, and of its ratio to the base of the same round."""
    row = {key: median(each[key] for each in rows) for key in rows[0]}
    for key in ("per_s", "cpu_ms", "bound_per_s"):
        pairs = zip(rows, base, strict=True)
        row[f"{key}_ratio"] = median(a[key] / b[key] for a, b in pairs)
    return {key: round(value, 3) for key, value in row.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--processes", default="1,2")
    parser.add_argument("--callers", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0)
    options = parser.parse_args()
    counts = [int(count) for count in options.processes.split(",")]
    cores = len(os.sched_getaffinity(0))
    with ExitStack() as stack:
        flags = ("--encoder", "none", "--processes")
        servers = {
            count: stack.enter_context(serving_farpoint(*flags, str(count))) for count in counts
        }
        for server in servers.values():
            server.pause()
        for points, samples in CASES:
            data = request(lidar(points), samples)
            turns: dict[int, list[Row]] = defaultdict(list)
            for number in range(options.rounds):
                for count in counts[:: -1 if number % 2 else 1]:
                    turn = measure(servers[count], data, options.callers, options.seconds, cores)
                    turns[count].append(turn)
            for count in counts:
                case = {"points": points, "samples": samples, "processes": count}
                shown(case | medians(turns[count], turns[counts[0]]))


if __name__ == "__main__":
    main()
