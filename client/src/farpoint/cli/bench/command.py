"""The options of `farpoint bench`."""

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated

import typer
from grpc import RpcError

from farpoint.cli.bench import report
from farpoint.cli.bench.load import Arrivals, Measured, measure
from farpoint.cli.bench.mix import Kind, make_requests
from farpoint.cli.bench.search import Goal, Step, rise
from farpoint.cli.connection import Connection
from farpoint.errors import InvalidArgumentError, from_rpc_error

# A call that takes longer than so many times the target will not be waited for.
PATIENCE = 20


def bench(
    connection: Connection,
    sizes: Annotated[
        list[str] | None,
        typer.Option(
            "--size",
            metavar="POINTS:SAMPLES[:SHARE]",
            help="A kind of request; repeat it for a mix.",
            show_default="16384:1024",
        ),
    ] = None,
    cloud: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Cloud to draw points from; else a wavy surface."),
    ] = None,
    target_ms: Annotated[
        float, typer.Option(min=0.001, help="Latency to keep, from when a call was due.")
    ] = 100.0,
    percentile: Annotated[
        float, typer.Option(min=1, max=100, help="Percent of the calls that must keep it.")
    ] = 99.0,
    seconds: Annotated[float, typer.Option(min=0.1, help="Duration of each rate.")] = 10.0,
    rate: Annotated[
        list[float] | None,
        typer.Option(
            metavar="PER_S",
            min=0.001,
            help="A rate in calls a second; repeat it for several.",
            show_default="rising until the target is missed",
        ),
    ] = None,
    first_rate: Annotated[
        float, typer.Option(min=0.001, help="The first rate of those that rise.")
    ] = 10.0,
    processes: Annotated[
        int, typer.Option(min=1, help="Processes that make calls; one makes some 1 500 a second.")
    ] = 1,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="OUT.svg", help="Latency over rate; .svg or .png; extra `picture`."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Load a server at rising rates, and tell what it sustains at a latency target.

    Calls are sent when they are due, like those of many independent callers, however long answers
    take. It is a test under full load: other callers of the server will feel it.
    """
    kinds = [Kind.parse(size) for size in sizes or ["16384:1024"]]
    goal = Goal(target_ms, percentile)
    if plot is not None and plot.suffix not in (".svg", ".png"):
        raise InvalidArgumentError(f"--plot must end in .svg or .png, got {plot}", field="plot")
    requests = make_requests(kinds, cloud, seed=0)
    shares = [kind.share for kind in kinds]
    run = partial(_offer, connection, requests, shares, seconds, PATIENCE * target_ms / 1e3)
    if processes == 1:
        steps = list(_steps(partial(run, seed=0), rate, first_rate, goal))
    else:
        with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
            offered = partial(_in_parallel, run, pool, processes)
            steps = list(_steps(offered, rate, first_rate, goal))
    if as_json:
        print(json.dumps(report.as_dict(connection.target, kinds, steps, goal)))
    else:
        report.show(steps, goal)
    if plot is not None:
        report.plot(plot, steps, goal)


def _steps(
    offered: Callable[[float], Measured], rates: Sequence[float] | None, first: float, goal: Goal
) -> Iterator[Step]:
    steps = (Step(r, offered(r), goal) for r in rates) if rates else rise(offered, first, goal)
    for step in steps:
        reached = f"p{goal.percent:g} {step.measured.percentile_ms(goal.percent):.3g} ms"
        typer.echo(f"{step.offered_per_s:.1f} calls a second: {reached}", err=True)
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
        # Made anew: only its text crosses from one process to another.
        raise type(found := from_rpc_error(error))(found.message) from None
