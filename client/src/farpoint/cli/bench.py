"""`farpoint bench`: rising rates of calls until a latency target is missed.

The load is open: calls begin when they are due, whether or not earlier ones were answered. A
generator that waits for answers asks a slow server less, and so measures it when it is idle
("coordinated omission"). Here a call's latency counts from when it was due.
"""

import asyncio
import json
import math
import re
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import partial
from multiprocessing import get_context
from typing import Any

import grpc
import numpy as np
from numpy.typing import NDArray

from farpoint._connection.channel import Balance, open_aio_channel
from farpoint._default import Connection
from farpoint._rpcs.sample import SampleRpc
from farpoint._tensors import Checksums, choose_checksums
from farpoint.cli.arguments import BenchArguments
from farpoint.errors import InvalidArgumentError, from_rpc_error
from farpoint.io import read_cloud

SAMPLE = "/farpoint.v1.SamplingService/Sample"
# Between rates while the target is kept; a step that missed it is halved into the last one.
FIRST_PER_S, FACTOR, REFINEMENTS = 10.0, 1.5, 3
# A generator that is later than this share of the target measures itself.
_MAX_LATE = 0.25
# Timeout of a call, in multiples of the target.
_PATIENCE = 20
_SIZE = re.compile(r"(\d+):(\d+)(?::(\d+(?:\.\d+)?))?")

Call = Callable[[bytes], Awaitable[bytes]]


@dataclass(frozen=True)
class Kind:
    """Requests of one cloud."""

    points: int
    samples: int
    share: float = 1.0

    @classmethod
    def parse(cls, text: str) -> "Kind":
        """Parses "POINTS:SAMPLES" or "POINTS:SAMPLES:SHARE"."""
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


@dataclass(frozen=True)
class Arrivals:
    """Times and kinds of calls, determined by the seed."""

    due_s: NDArray[np.float64]
    kinds: NDArray[np.int64]

    @classmethod
    def poisson(cls, rate: float, seconds: float, shares: Sequence[float], seed: int) -> "Arrivals":
        """Independent callers that send `rate` calls per second together, for some seconds."""
        random = np.random.default_rng(seed)
        count = max(1, int(random.poisson(rate * seconds)))
        due_s = np.sort(random.uniform(0, seconds, count))
        weights = np.array(shares) / sum(shares)
        return cls(due_s, random.choice(len(weights), count, p=weights))


@dataclass
class Measured:
    """Outcomes and latencies of calls.

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

    def percentile_ms(self, percent: float) -> float:
        """The latency that this percentage of the calls kept."""
        ordered = sorted(self.latency_ms)
        return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


@dataclass(frozen=True)
class Step:
    """The result of one rate; `percent` of the calls must meet the target."""

    offered_per_s: float
    measured: Measured
    target_ms: float
    percent: float = 99.0

    @property
    def is_kept(self) -> bool:
        """Whether the target was met; failed calls do not meet it."""
        return self.measured.percentile_ms(self.percent) <= self.target_ms

    @property
    def is_late(self) -> bool:
        """Whether the generator was too slow."""
        late_ms = float(np.percentile(self.measured.late_ms, self.percent))
        return not self.is_kept and late_ms > _MAX_LATE * self.target_ms

    def as_dict(self) -> dict[str, Any]:
        """The result for JSON; a latency is null if calls failed."""
        measured = self.measured
        latencies = {f"p{p}_ms": measured.percentile_ms(p) for p in (50, 90, 99)}
        errors = sorted(set(measured.errors))
        answered = len(measured.latency_ms) - len(measured.errors)
        return {
            "offered_per_s": self.offered_per_s,
            "answered_per_s": answered / max(measured.seconds, 1e-9),
            **{name: ms if math.isfinite(ms) else None for name, ms in latencies.items()},
            "errors": {name: measured.errors.count(name) for name in errors},
            "generator_late_p99_ms": float(np.percentile(measured.late_ms, 99)),
            "kept": self.is_kept,
        }


async def offer(call: Call, requests: Sequence[bytes], arrivals: Arrivals) -> Measured:
    """Sends every call when it is due and waits for all answers."""
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


def make_requests(
    kinds: Sequence[Kind], cloud: str | None, checksums: Checksums, seed: int
) -> list[bytes]:
    """One Sample request of each kind, as a client sends it.

    Args:
        kinds: of requests.
        cloud: a file whose points are drawn from, again and again if there are too few; None for
            points of a wavy surface, as scanners see them.
        checksums: of the answers.
        seed: of what is drawn.
    """
    random = np.random.default_rng(seed)
    scan = None if cloud is None else np.asarray(read_cloud(cloud).points, np.float32)
    requests = []
    for kind in kinds:
        if scan is None:
            x, y = random.uniform(0, 10, (2, kind.points))
            z = np.sin(x) * np.cos(1.3 * y) + random.normal(0, 0.01, kind.points)
            points = np.stack([x, y, z], axis=1).astype(np.float32)
        else:
            points = scan[random.choice(len(scan), kind.points, replace=kind.points > len(scan))]
        rpc = SampleRpc(points, kind.samples, checksums=checksums)
        requests.append(rpc.request.SerializeToString())
    return requests


def rise(run: Callable[[float], Step]) -> Iterator[Step]:
    """Steps at rising rates until the target is missed, and some between."""
    kept, missed, rate, tries = 0.0, math.inf, FIRST_PER_S, 0
    while tries <= REFINEMENTS:
        step = run(rate)
        yield step
        if step.is_late:
            return
        kept, missed = (rate, missed) if step.is_kept else (kept, rate)
        tries += math.isfinite(missed)
        rate = (kept + missed) / 2 if math.isfinite(missed) else rate * FACTOR


def sustained(steps: Sequence[Step]) -> float | None:
    """The highest rate below which no step missed the target; None if the first one did."""
    missed = min((s.offered_per_s for s in steps if not s.is_kept), default=math.inf)
    kept = (s.offered_per_s for s in steps if s.is_kept and s.offered_per_s < missed)
    return max(kept, default=None)


def run(connection: Connection, arguments: BenchArguments) -> None:
    """Runs the benchmark and prints its result."""
    kinds = [Kind.parse(size) for size in arguments.sizes or ["16384:1024"]]
    checksums = choose_checksums(None, is_plain=connection.security().credentials is None)
    requests = make_requests(kinds, arguments.cloud, checksums, seed=0)
    steps = []
    with ProcessPoolExecutor(arguments.processes, get_context("spawn")) as pool:
        step_at = partial(_step, pool, connection, requests, kinds, arguments)
        for step in map(step_at, arguments.rate) if arguments.rate else rise(step_at):
            steps.append(step)
            reached = f"p{step.percent:g} {step.measured.percentile_ms(step.percent):.3g} ms"
            failed = f", {len(step.measured.errors)} failed" if step.measured.errors else ""
            print(f"{step.offered_per_s:.1f} calls a second: {reached}{failed}", file=sys.stderr)
    best = sustained(steps)
    if arguments.as_json:
        report = {
            "server": connection.target,
            "kinds": [asdict(kind) for kind in kinds],
            "goal": {"latency_ms": arguments.target_ms, "percent": arguments.percentile},
            "sustained_per_s": best,
            "steps": [step.as_dict() for step in steps],
        }
        print(json.dumps(report))
        return
    wanted = f"p{arguments.percentile:g} <= {arguments.target_ms:g} ms"
    rate = "none of these rates" if best is None else f"{best:.1f} calls a second"
    late = ", or more: this generator was late, --processes starts several"
    print(f"sustains {rate} at {wanted}{late * any(step.is_late for step in steps)}")


def _step(
    pool: ProcessPoolExecutor,
    connection: Connection,
    requests: Sequence[bytes],
    kinds: Sequence[Kind],
    arguments: BenchArguments,
    rate: float,
) -> Step:
    """A rate offered by several processes with callers of their own."""
    count = arguments.processes
    offered = partial(_measure, connection, requests, kinds, arguments, rate / count)
    parts = list(pool.map(offered, range(count)))
    measured = Measured(
        [latency for part in parts for latency in part.latency_ms],
        [late for part in parts for late in part.late_ms],
        max(part.seconds for part in parts),
        [error for part in parts for error in part.errors],
    )
    return Step(rate, measured, arguments.target_ms, arguments.percentile)


def _measure(
    connection: Connection,
    requests: Sequence[bytes],
    kinds: Sequence[Kind],
    arguments: BenchArguments,
    rate: float,
    seed: int,
) -> Measured:
    """Offers calls on a channel of its own, after one call of each kind."""
    shares = [kind.share for kind in kinds]
    arrivals = Arrivals.poisson(rate, arguments.seconds, shares, seed)

    async def main() -> Measured:
        options = (connection.target, connection.security(), Balance(retry_budget=0))
        async with open_aio_channel(*options) as channel:
            method: Any = channel.unary_unary(SAMPLE)
            call: Call = partial(method, timeout=_PATIENCE * arguments.target_ms / 1e3)
            for request in requests:
                await call(request)
            return await offer(call, requests, arrivals)

    try:
        return asyncio.run(main())
    except grpc.RpcError as error:
        raise from_rpc_error(error) from None
