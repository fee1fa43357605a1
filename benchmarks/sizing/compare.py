"""The simulation against a server: calls a second and p99 of four mixes, in interleaved rounds."""

import asyncio
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

import numpy as np

from benchmarks.sizing.calibrate import Server, closed_loop_per_s, cost_of, server_on_one_core
from benchmarks.sizing.model import Cost, Node, closed_loop, open_loop, run
from farpoint._channel import open_aio_channel
from farpoint.cli.bench.load import SAMPLE, Arrivals, Measured, offer
from farpoint.cli.bench.mix import Kind, make_requests

MIXES: dict[str, list[Kind]] = {
    "small": [Kind(1024, 256)],
    "scans": [Kind(16384, 1024)],
    "mixed": [Kind(1024, 256, 80), Kind(16384, 1024, 18), Kind(120_000, 4096, 2)],
    # What is long waits in a lane of its own.
    "long": [Kind(16384, 1024, 98), Kind(500_000, 120_000, 2)],
}
# Of the calls a second that callers without pauses get.
LOADS = (0.5, 0.7)
CALLERS = 32


@dataclass
class Rounds:
    """What was measured of one mix."""

    costs: list[list[Cost]] = field(default_factory=list)
    """Of each round, of each kind."""
    per_s: list[float] = field(default_factory=list)
    turns: list[list[int]] = field(default_factory=list)
    """Kinds of the calls of callers without pauses."""
    rates: dict[float, float] = field(default_factory=dict)
    """Calls a second offered at each load, as of the first round."""
    arrivals: dict[float, list[Arrivals]] = field(default_factory=dict)
    p99_ms: dict[float, list[float]] = field(default_factory=dict)

    def median_costs(self) -> list[Cost]:
        """Of the rounds."""
        names = ("kernel_s", "wire_s", "caller_s", "away_s")
        return [
            Cost(
                *(of_kind[0].points, of_kind[0].samples),
                *(statistics.median(getattr(c, name) for c in of_kind) for name in names),
            )
            for of_kind in zip(*self.costs, strict=True)
        ]


async def measure(server: Server, rounds: int, seconds: float) -> dict[str, Rounds]:
    """Every mix in every round: its costs, then callers without pauses, then calls when due."""
    found = {name: Rounds() for name in MIXES}
    async with open_aio_channel(server.address) as channel:
        method: Any = channel.unary_unary(SAMPLE)

        async def call(request: bytes) -> bytes:
            return bytes(await method(request))

        for number in range(rounds):
            for name, kinds in MIXES.items():
                await _round(server, call, kinds, found[name], number, seconds)
    return found


async def _round(
    server: Server, call: Any, kinds: Sequence[Kind], found: Rounds, number: int, seconds: float
) -> None:
    requests = make_requests(kinds, None, seed=0)
    shares = [kind.share for kind in kinds]
    found.costs.append([await cost_of(server, call, kind, seconds / 6) for kind in kinds])
    total_s = sum(
        share * (cost.kernel_s + cost.wire_s)
        for share, cost in zip(shares, found.costs[-1], strict=True)
    ) / sum(shares)
    turns = _turns(shares, seconds / 3 / total_s, number)
    found.turns.append(turns)
    found.per_s.append(await closed_loop_per_s(call, requests, turns, CALLERS))
    for load in LOADS:
        rate = found.rates.setdefault(load, load * found.per_s[0])
        arrivals = Arrivals.poisson(rate, seconds, shares, number)
        found.arrivals.setdefault(load, []).append(arrivals)
        measured = await offer(call, requests, arrivals)
        found.p99_ms.setdefault(load, []).append(measured.percentile_ms(99))


def _turns(shares: Sequence[float], count: float, seed: int) -> list[int]:
    """Kinds of about so many calls, by their shares."""
    drawn = Arrivals.poisson(max(count, 10 * CALLERS), 1.0, shares, seed)
    return [int(kind) for kind in drawn.kinds]


def simulated(costs: Sequence[Cost], found: Rounds) -> dict[str, Any]:
    """The same calls in the same order and at the same times, of a simulated server."""

    async def saturate(turns: Sequence[int]) -> float:
        return await closed_loop(Node(1, costs), CALLERS, turns)

    async def load(arrivals: Arrivals) -> Measured:
        places = np.zeros(len(arrivals.kinds), np.int64)
        return await open_loop([Node(1, costs)], arrivals, places, asyncio.Lock())

    per_s = [run(partial(saturate, turns)) for turns in found.turns]
    p99_ms = {
        at: [run(partial(load, arrivals)).percentile_ms(99) for arrivals in every]
        for at, every in found.arrivals.items()
    }
    return _medians(per_s, p99_ms)


def _medians(per_s: list[float], p99_ms: dict[float, list[float]]) -> dict[str, Any]:
    """Of the rounds."""
    by_load = {load: statistics.median(rounds) for load, rounds in p99_ms.items()}
    return {"per_s": statistics.median(per_s), "p99_ms": by_load}


def compare(rounds: int, seconds: float) -> dict[str, Any]:
    """Measured and simulated, of each mix, and their quotients."""
    with server_on_one_core() as server:
        found = asyncio.run(measure(server, rounds, seconds))
    results: dict[str, Any] = {}
    for name, kinds in MIXES.items():
        costs = found[name].median_costs()
        measured = _medians(found[name].per_s, found[name].p99_ms)
        model = simulated(costs, found[name])
        results[name] = {
            "kinds": [asdict(kind) for kind in kinds],
            "costs": [asdict(cost) for cost in costs],
            "offered_per_s": found[name].rates,
            "measured": measured,
            "of_rounds": {"per_s": found[name].per_s, "p99_ms": found[name].p99_ms},
            "simulated": model,
        }
    return results
