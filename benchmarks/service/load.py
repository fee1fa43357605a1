"""Closed-loop load generator over gRPC or HTTP: latency, throughput and the server's CPU time."""

import asyncio
import math
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus

import grpc
import numpy as np

from benchmarks.service.processes import Server
from farpoint._rpcs.sample import SampleRpc

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


class HttpPeer:
    """An HTTP/1.1 connection that is opened again when it was lost.

    It asks less of a core than a whole HTTP client does, and so leaves the server more.
    """

    def __init__(self) -> None:
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def post(
        self, address: str, path: str, kind: str, body: bytes, request_id: str = ""
    ) -> tuple[int, bytes]:
        """Status and body of the answer; raises OSError or EOFError if the connection is lost."""
        if self._streams is None or self._streams[0].at_eof():
            host, _, port = address.rpartition(":")
            self._streams = await asyncio.open_connection(host, int(port), limit=HTTP_BUFFER)
        reader, writer = self._streams
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\n"
        head += f"X-Request-Id: {request_id}\r\nContent-Length: {len(body)}\r\n\r\n"
        try:
            writer.writelines((head.encode(), body))
            status, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            fields = (line.lower().partition(":") for line in lines)
            headers = {name: value.strip() for name, _, value in fields}
            answer = await reader.readexactly(int(headers["content-length"]))
        except (OSError, EOFError):
            self.close()
            raise
        if headers.get("connection") == "close":
            self.close()
        return int(status.split()[1]), answer

    def close(self) -> None:
        """Closes it; the next request opens another one."""
        if self._streams is not None:
            self._streams[1].close()
        self._streams = None


@asynccontextmanager
async def over_http(address: str, path: str) -> AsyncIterator[Call]:
    """POST of octet streams, on as many connections as there are calls at a time."""
    idle: list[HttpPeer] = []

    async def call(data: bytes) -> bytes:
        peer = idle.pop() if idle else HttpPeer()
        status, body = await peer.post(address, path, "application/octet-stream", data)
        if status != HTTPStatus.OK:
            raise RuntimeError(f"{status}: {body[:200].decode(errors='replace')}")
        idle.append(peer)
        return body

    try:
        yield call
    finally:
        for peer in idle:
            peer.close()


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


def medians(rows: Sequence[dict[str, float]]) -> dict[str, float]:
    """Of several turns of `load`."""
    return {key: statistics.median(row[key] for row in rows) for key in rows[0]}


def percentiles_ms(seconds: Sequence[float]) -> dict[str, float]:
    """p50 and p99."""
    ordered = sorted(seconds)
    p99 = ordered[math.ceil(0.99 * len(ordered)) - 1]
    return {"p50_ms": 1e3 * statistics.median(ordered), "p99_ms": 1e3 * p99}


def request(cloud: np.ndarray, samples: int) -> bytes:
    """The message of `Client.sample` in plain text."""
    return SampleRpc(cloud, samples, checksums=True).head.SerializeToString()
