"""Server processes, and load on them: latency, throughput, CPU time and memory."""

import asyncio
import os
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc
import numpy as np

from farpoint.v1 import sampling_pb2 as pb
from farpoint.v1 import tensor_pb2

UNLIMITED = (("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1))
SAMPLE = "/farpoint.v1.SamplingService/Sample"


@dataclass(frozen=True)
class Server:
    """A process that serves at an address."""

    process: "subprocess.Popen[str]"
    address: str

    def cpu_seconds(self) -> float:
        """Of all its threads, since it began."""
        stat = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")

    def resident_mb(self, field: str = "VmRSS") -> float:
        """Memory now, or at its peak for "VmHWM"."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith(field)).split()[1]) / 1024


@contextmanager
def serving(*program: str) -> Iterator[Server]:
    """A Python program that prints its address when it is ready."""
    process = subprocess.Popen([sys.executable, *program], stdout=subprocess.PIPE, text=True)
    try:
        yield Server(process, process.stdout.readline().strip())
    finally:
        process.terminate()
        process.communicate()


def request(points: int, samples: int, *, return_points: bool = False) -> bytes:
    """A serialized SampleRequest of one float32 cloud."""
    cloud = np.random.default_rng(points).normal(size=(points, 3)).astype("<f4")
    tensor = tensor_pb2.Tensor(
        data_type=tensor_pb2.DATA_TYPE_FLOAT32, shape=cloud.shape, data=cloud.tobytes()
    )
    return pb.SampleRequest(
        points=tensor, sample_counts=[samples], return_points=return_points
    ).SerializeToString()


def load(
    server: Server, method: str, data: bytes, concurrency: int, calls: int
) -> dict[str, float]:
    """`calls` calls, `concurrency` at a time: p50 and p99 in ms, calls/s, server CPU ms a call."""
    return asyncio.run(_load(server, method, data, concurrency, calls))


async def _load(
    server: Server, method: str, data: bytes, concurrency: int, calls: int
) -> dict[str, float]:
    latencies: list[float] = []
    async with grpc.aio.insecure_channel(server.address, options=UNLIMITED) as channel:
        call = channel.unary_unary(method)
        await asyncio.gather(*(call(data) for _ in range(concurrency)))
        numbers = iter(range(calls))

        async def caller() -> None:
            for _ in numbers:
                begun = time.perf_counter()
                await call(data)
                latencies.append(time.perf_counter() - begun)

        cpu, begun = server.cpu_seconds(), time.perf_counter()
        await asyncio.gather(*(caller() for _ in range(concurrency)))
        seconds = time.perf_counter() - begun
        cpu = server.cpu_seconds() - cpu
    ordered = sorted(latencies)
    return {
        "p50_ms": 1e3 * statistics.median(ordered),
        "p99_ms": 1e3 * ordered[int(0.99 * (len(ordered) - 1))],
        "per_s": calls / seconds,
        "cpu_ms": 1e3 * cpu / calls,
    }


async def expire(address: str, data: bytes, calls: int, timeout: float) -> dict[str, object]:
    """Calls that mostly miss their deadline; how long a small call then takes, from the last one.

    The small call is answered once the engine is free, so its time bounds the dead work.
    """
    async with grpc.aio.insecure_channel(address, options=UNLIMITED) as channel:
        call = channel.unary_unary(SAMPLE)
        small = request(10, 1)
        await call(small)

        async def one() -> str:
            try:
                await call(data, timeout=timeout)
            except grpc.aio.AioRpcError as error:
                return error.code().name
            return "OK"

        codes = Counter(await asyncio.gather(*(one() for _ in range(calls))))
        begun = time.perf_counter()
        await call(small)
        return {"codes": dict(codes), "idle_after_s": time.perf_counter() - begun}


async def cancel(address: str, data: bytes, after_s: float) -> float:
    """Milliseconds from the cancel of a call that is being computed to the answer of the next."""
    async with grpc.aio.insecure_channel(address, options=UNLIMITED) as channel:
        call = channel.unary_unary(SAMPLE)
        small = request(10, 1)
        await call(small)
        running = call(data)
        await asyncio.sleep(after_s)
        assert not running.done()
        begun = time.perf_counter()
        running.cancel()
        await call(small)
        return 1e3 * (time.perf_counter() - begun)
