"""`farpoint bench`: rates in one process or several, and the report."""

import asyncio
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context

from grpc import RpcError

from farpoint._default import Connection
from farpoint.cli.arguments import BenchArguments
from farpoint.cli.bench import report
from farpoint.cli.bench.load import Arrivals, Kind, Measured, make_requests, measure
from farpoint.cli.bench.report import Goal, Step, rise
from farpoint.errors import from_rpc_error

# A call that takes longer than so many times the target is not waited for.
_PATIENCE = 20


def run(connection: Connection, arguments: BenchArguments) -> None:
    """Measures and reports."""
    processes = arguments.processes
    kinds = [Kind.parse(size) for size in arguments.sizes or ["16384:1024"]]
    goal = Goal(arguments.target_ms, arguments.percentile)
    requests = make_requests(kinds, arguments.cloud, seed=0)
    shares = [kind.share for kind in kinds]
    timeout_s = _PATIENCE * goal.latency_ms / 1e3
    offer = partial(_offer, connection, requests, shares, arguments.seconds, timeout_s)
    rates = arguments.rate, arguments.first_rate
    if processes == 1:
        steps = list(_steps(partial(offer, seed=0), *rates, goal))
    else:
        with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
            steps = list(_steps(partial(_in_parallel, offer, pool, processes), *rates, goal))
    if arguments.as_json:
        print(json.dumps(report.as_dict(connection.target, kinds, steps, goal)))
    else:
        report.show(steps, goal)


def _steps(
    offered: Callable[[float], Measured], rates: Sequence[float] | None, first: float, goal: Goal
) -> Iterator[Step]:
    steps = (Step(r, offered(r), goal) for r in rates) if rates else rise(offered, first, goal)
    for step in steps:
        reached = f"p{goal.percent:g} {step.measured.percentile_ms(goal.percent):.3g} ms"
        print(f"{step.offered_per_s:.1f} calls a second: {reached}", file=sys.stderr)
        yield step


def _in_parallel(
    run: Callable[..., Measured], pool: ProcessPoolExecutor, processes: int, rate: float
) -> Measured:
    """A rate, offered by several processes, of which each has its own callers."""
    parts = list(pool.map(run, [rate / processes] * processes, range(processes)))
    return Measured(
        [latency for part in parts for latency in part.latency_ms],
        [late for part in parts for late in part.late_ms],
        max(part.seconds for part in parts),
        [error for part in parts for error in part.errors],
    )


def _offer(
    connection: Connection,
    requests: Sequence[bytes],
    shares: Sequence[float],
    seconds: float,
    timeout_s: float,
    rate: float,
    seed: int,
) -> Measured:
    """In one process."""
    arrivals = Arrivals.poisson(rate, seconds, shares, seed)
    calls = measure(connection.target, connection.security(), requests, arrivals, timeout_s)
    try:
        return asyncio.run(calls)
    except RpcError as error:
        # A new one: only the text of an error crosses from one process to another.
        raise type(found := from_rpc_error(error))(found.message) from None
