"""Callers in processes of their own, each with a connection of its own, whose CPU time is known.

    python -m benchmarks.service.scaling.crowd ADDRESS FILE CALLERS SECONDS

is one such process: it connects, says so, begins at a line on standard input, and prints what it
saw.
"""

import asyncio
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import grpc

from benchmarks.service.load import SAMPLE, UNLIMITED

OPTIONS = (*UNLIMITED, ("grpc.use_local_subchannel_pool", 1))


async def call_all(address: str, data: bytes, callers: int, seconds: float) -> dict[str, object]:
    """Calls in a closed loop: number, milliseconds of each, CPU seconds of this process."""
    latencies: list[float] = []
    async with AsyncExitStack() as stack:
        channels = [
            await stack.enter_async_context(grpc.aio.insecure_channel(address, options=OPTIONS))
            for _ in range(callers)
        ]
        calls = [channel.unary_unary(SAMPLE) for channel in channels]
        await asyncio.gather(*(call(data) for call in calls))
        print("connected", flush=True)
        sys.stdin.readline()
        begun, cpu = time.perf_counter(), time.process_time()

        async def caller(call: grpc.aio.UnaryUnaryMultiCallable) -> None:
            sent = begun
            while sent < begun + seconds:
                sent = time.perf_counter()
                await call(data)
                latencies.append(1e3 * (time.perf_counter() - sent))

        await asyncio.gather(*map(caller, calls))
        elapsed = time.perf_counter() - begun
        return {
            "milliseconds": latencies,
            "seconds": elapsed,
            "cpu_s": time.process_time() - cpu,
        }


def crowd(
    address: str,
    data: bytes,
    callers: int,
    seconds: float,
    caller_processes: int,
    look: Callable[[], object],
) -> dict[str, float]:
    """Has callers in several processes call at the same time: calls/s, p50 and p99, their cores.

    `look` is called when all are connected and have called once, before they begin.
    """
    with tempfile.NamedTemporaryFile() as file:
        Path(file.name).write_bytes(data)
        command = [sys.executable, "-m", "benchmarks.service.scaling.crowd", address, file.name]
        each = [*command, str(callers // caller_processes), str(seconds)]
        # One event loop is as busy as that of the server, so one process of callers would be slow.
        processes = [
            subprocess.Popen(each, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            for _ in range(caller_processes)
        ]
        for process in processes:
            process.stdout.readline()
        look()
        for process in processes:
            process.stdin.write("\n")
            process.stdin.flush()
        return _joined([json.loads(process.communicate()[0]) for process in processes])


def _joined(seen: Sequence[dict[str, object]]) -> dict[str, float]:
    latencies = sorted(ms for each in seen for ms in each["milliseconds"])
    return {
        "calls": len(latencies),
        "per_s": sum(len(each["milliseconds"]) / each["seconds"] for each in seen),
        "p50_ms": statistics.median(latencies),
        "p99_ms": latencies[math.ceil(0.99 * len(latencies)) - 1],
        "caller_cores": sum(each["cpu_s"] / each["seconds"] for each in seen),
    }


def main() -> None:
    address, file, callers, seconds = sys.argv[1:]
    data = Path(file).read_bytes()
    seen = asyncio.run(call_all(address, data, int(callers), float(seconds)))
    print(json.dumps(seen), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
