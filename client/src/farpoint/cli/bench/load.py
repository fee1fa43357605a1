"""Open-loop load: calls begin when they are due, whether or not earlier ones were answered.

A generator that waits for answers asks a slow server less, and so measures it when it is idle
("coordinated omission"). Here a call's latency counts from when it was due.
"""

import asyncio
import math
import re
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import grpc
import numpy as np
from numpy.typing import NDArray

from farpoint._connection.channel import Balance, open_aio_channel
from farpoint._connection.security import Security
from farpoint._rpcs.sample import SampleRpc
from farpoint.errors import InvalidArgumentError
from farpoint.io import read_cloud

_SIZE = re.compile(r"(\d+):(\d+)(?::(\d+(?:\.\d+)?))?")
SAMPLE = "/farpoint.v1.SamplingService/Sample"

Call = Callable[[bytes], Awaitable[bytes]]


@dataclass(frozen=True)
class Arrivals:
    """When calls are due and which kind each is of; the same for the same seed."""

    due_s: NDArray[np.float64]
    kinds: NDArray[np.int64]

    @classmethod
    def poisson(cls, rate: float, seconds: float, shares: Sequence[float], seed: int) -> "Arrivals":
        """Independent callers, `rate` calls a second of all of them, for some seconds."""
        random = np.random.default_rng(seed)
        count = max(1, int(random.poisson(rate * seconds)))
        due_s = np.sort(random.uniform(0, seconds, count))
        weights = np.array(shares) / sum(shares)
        return cls(due_s, random.choice(len(weights), count, p=weights))


@dataclass
class Measured:
    """How calls went.

    Attributes:
        latency_ms: from when each was due until its answer; infinite for one that failed.
        late_ms: from when each was due until it was sent: of the generator, not of the server.
        seconds: until the last answer.
        errors: statuses of those that failed.
    """

    latency_ms: list[float] = field(default_factory=list)
    late_ms: list[float] = field(default_factory=list)
    seconds: float = 0.0
    errors: list[str] = field(default_factory=list)

    @property
    def answered_per_s(self) -> float:
        """Over the time until the last answer."""
        return (len(self.latency_ms) - len(self.errors)) / max(self.seconds, 1e-9)

    def percentile_ms(self, percent: float) -> float:
        """Of the latencies: the least that as many percent of the calls kept."""
        ordered = sorted(self.latency_ms)
        return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]

    def late_percentile_ms(self, percent: float) -> float:
        """As `percentile_ms`, of the generator's own delay."""
        return float(np.percentile(self.late_ms, percent))


async def offer(call: Call, requests: Sequence[bytes], arrivals: Arrivals) -> Measured:
    """Makes every call when it is due, and waits for all answers."""
    measured, begun = Measured(), time.perf_counter()
    running: set[asyncio.Task[None]] = set()

    async def one(due: float, request: bytes) -> None:
        measured.late_ms.append((time.perf_counter() - due) * 1e3)
        try:
            await call(request)
        except grpc.RpcError as error:
            measured.errors.append(error.code().name)
            measured.latency_ms.append(math.inf)
        else:
            measured.latency_ms.append((time.perf_counter() - due) * 1e3)

    for due_s, kind in zip(arrivals.due_s.tolist(), arrivals.kinds.tolist(), strict=True):
        due = begun + due_s
        if (ahead := due - time.perf_counter()) > 0:
            await asyncio.sleep(ahead)
        task = asyncio.ensure_future(one(due, requests[kind]))
        running.add(task)
        task.add_done_callback(running.discard)
    await asyncio.gather(*running)
    measured.seconds = time.perf_counter() - begun
    return measured


async def measure(
    target: str,
    security: Security,
    requests: Sequence[bytes],
    arrivals: Arrivals,
    timeout_s: float,
) -> Measured:
    """As `offer`, on a channel of its own that has answered each kind once before."""
    balance = Balance(retry_budget=0)
    async with open_aio_channel(target, security, balance) as channel:
        method: Any = channel.unary_unary(SAMPLE)

        async def call(request: bytes) -> bytes:
            return bytes(await method(request, timeout=timeout_s))

        for request in requests:
            await call(request)
        return await offer(call, requests, arrivals)


@dataclass(frozen=True)
class Kind:
    """Requests of one cloud."""

    points: int
    samples: int
    share: float = 1.0

    @classmethod
    def parse(cls, text: str) -> "Kind":
        """From "POINTS:SAMPLES" or "POINTS:SAMPLES:SHARE"."""
        match = _SIZE.fullmatch(text)
        if match:
            kind = cls(int(match[1]), int(match[2]), float(match[3] or 1))
            if 1 <= kind.samples <= kind.points and kind.share > 0:
                return kind
        raise InvalidArgumentError(
            "--size must be POINTS:SAMPLES or POINTS:SAMPLES:SHARE, with samples from 1 to points "
            f"and a share above 0, got {text!r}",
            field="size",
        )


def make_requests(kinds: Sequence[Kind], cloud: str | None, seed: int) -> list[bytes]:
    """One serialized Sample request of each kind.

    Args:
        kinds: of requests.
        cloud: a file whose points are drawn from, again and again if there are too few; None for
            points of a wavy surface, as scanners see them.
        seed: of what is drawn.
    """
    random = np.random.default_rng(seed)
    scan = None if cloud is None else np.asarray(read_cloud(cloud).points, np.float32)
    requests = []
    for kind in kinds:
        if scan is None:
            points = _surface(kind.points, random)
        else:
            points = scan[random.choice(len(scan), kind.points, replace=kind.points > len(scan))]
        rpc = SampleRpc(points, kind.samples, nonfinite="ignore")
        requests.append(rpc.request.SerializeToString())
    return requests


def _surface(count: int, random: np.random.Generator) -> NDArray[np.float32]:
    """Points (count, 3) of a height field, ten by ten."""
    x, y = random.uniform(0, 10, (2, count))
    z = np.sin(x) * np.cos(1.3 * y) + random.normal(0, 0.01, count)
    return np.stack([x, y, z], axis=1).astype(np.float32)
