"""Closed-loop load generator over gRPC or HTTP: latency, throughput and the server's CPU time."""

import asyncio
import math
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass

import grpc
import numpy as np

from benchmarks.service.processes import Server
from farpoint.v1 import sampling_pb2 as pb
from farpoint.v1 import tensor_pb2

UNLIMITED = (("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1))
SAMPLE = "/farpoint.v1.SamplingService/Sample"
HTTP_BUFFER = 1 << 24
PATIENCE_SECONDS = 60.0

Call = Callable[[bytes], Awaitable[bytes]]


@asynccontextmanager
async def over_grpc(address: str, method: str) -> AsyncIterator[Call]:
    """Calls of one method on one channel, without parsing what comes back."""
    async with grpc.aio.insecure_channel(address, options=UNLIMITED) as channel:
        yield channel.unary_unary(method)


@asynccontextmanager
async def over_http(address: str, path: str) -> AsyncIterator[Call]:
    """POST of octet streams, on as many HTTP/1.1 connections as there are calls at a time.

    It asks less of a core than a whole HTTP client does, and so leaves the server more.
    """
    host, port = address.split(":")
    head = f"POST {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/octet-stream\r\n"
    idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def call(data: bytes) -> bytes:
        if not idle:
            idle.append(await asyncio.open_connection(host, int(port), limit=HTTP_BUFFER))
        reader, writer = connection = idle.pop()
        writer.writelines((f"{head}Content-Length: {len(data)}\r\n\r\n".encode(), data))
        status, *fields = (await reader.readuntil(b"\r\n\r\n")).lower().splitlines()
        length = next(f for f in fields if f.startswith(b"content-length:")).split(b":")[1]
        body = await reader.readexactly(int(length))
        if status.split()[1] != b"200":
            raise RuntimeError(f"{status.decode()}: {body[:200].decode(errors='replace')}")
        idle.append(connection)
        return body

    try:
        yield call
    finally:
        for _, writer in idle:
            writer.close()


@dataclass(frozen=True)
class Contender:
    """One request to one server, and how its answer is checked."""

    name: str
    server: Server
    method: str
    data: bytes
    check: Callable[[bytes], None]
    connect: Callable[[str, str], AbstractAsyncContextManager[Call]] = over_grpc

    def connection(self) -> AbstractAsyncContextManager[Call]:
        return self.connect(self.server.address, self.method)


def once(contender: Contender) -> bytes:
    """The answer to one call."""

    async def _once() -> bytes:
        async with contender.connection() as call:
            return await asyncio.wait_for(call(contender.data), PATIENCE_SECONDS)

    return asyncio.run(_once())


def load(contender: Contender, concurrency: int, seconds: float) -> dict[str, float]:
    """Calls for so long, `concurrency` at a time: p50 and p99 in ms, calls/s, CPU ms a call.

    Raises:
        TimeoutError: the server stopped answering.
    """
    return asyncio.run(
        asyncio.wait_for(_load(contender, concurrency, seconds), seconds + PATIENCE_SECONDS)
    )


async def _load(contender: Contender, concurrency: int, seconds: float) -> dict[str, float]:
    latencies: list[float] = []
    data, server = contender.data, contender.server
    async with contender.connection() as call:
        await asyncio.gather(*(call(data) for _ in range(concurrency)))
        cpu, begun = server.cpu_seconds(), time.perf_counter()

        async def caller() -> None:
            sent = begun
            while sent < begun + seconds:
                sent = time.perf_counter()
                await call(data)
                latencies.append(time.perf_counter() - sent)

        await asyncio.gather(*(caller() for _ in range(concurrency)))
        elapsed = time.perf_counter() - begun
        cpu = server.cpu_seconds() - cpu
    return {
        **percentiles_ms(latencies),
        "per_s": len(latencies) / elapsed,
        "cpu_ms": 1e3 * cpu / len(latencies),
        "calls": len(latencies),
    }


def percentiles_ms(seconds: Sequence[float]) -> dict[str, float]:
    """p50 and p99."""
    ordered = sorted(seconds)
    p99 = ordered[math.ceil(0.99 * len(ordered)) - 1]
    return {"p50_ms": 1e3 * statistics.median(ordered), "p99_ms": 1e3 * p99}


def request(cloud: np.ndarray, samples: int, *, return_points: bool = False) -> bytes:
    """A serialized SampleRequest of one float32 cloud."""
    tensor = tensor_pb2.Tensor(
        data_type=tensor_pb2.DATA_TYPE_FLOAT32, shape=cloud.shape, data=cloud.tobytes()
    )
    return pb.SampleRequest(
        points=tensor, sample_counts=[samples], return_points=return_points
    ).SerializeToString()
