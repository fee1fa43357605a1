"""Latency of small clouds beside callers with clouds of two million points, before and after.

    python -m benchmarks.attacks fairness [--before PATH] [--rounds 5] [--seconds 8]

Each caller is a process of its own. In each round each checkout's server has a turn, the other one
stopped: first the small caller alone, then beside the large ones. Prints the median and the 99th
percentile of the small calls, and the points of large clouds that were answered in a second.
"""

import argparse
import math
import multiprocessing
import os
import statistics
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import grpc

from benchmarks.common.checkouts import ROOT, environment
from benchmarks.common.point_sets import cube
from benchmarks.service.compare import echo_server
from benchmarks.service.load import SAMPLE, UNLIMITED, request
from benchmarks.service.processes import Server, serving

SMALL = (1024, 2048, 4096)
LARGE = 2_000_000
# Of each small cloud, and of a large one.
SMALL_SHARE, LARGE_SAMPLES = 4, 65_536
# Between two small calls, so that they do not fill a core by themselves.
PAUSE_S = 0.003
# Until each large caller has had its first answer, in a server that is fair to them.
WARM_UP_S = 3.0


@dataclass
class Figures:
    """Of one server: seconds of each small call, and points of large clouds a second."""

    alone: list[float] = field(default_factory=list)
    beside: list[float] = field(default_factory=list)
    points_per_s: list[float] = field(default_factory=list)


def call_small(address: str, seconds: float) -> list[float]:
    """Seconds of each call of a small cloud, one after the other, for so long."""
    messages = [request(cube(n), n // SMALL_SHARE) for n in SMALL]
    taken: list[float] = []
    with grpc.insecure_channel(address, options=UNLIMITED) as channel:
        call = channel.unary_unary(SAMPLE)
        call(messages[0])
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            sent = time.perf_counter()
            call(messages[len(taken) % len(messages)])
            taken.append(time.perf_counter() - sent)
            time.sleep(PAUSE_S)
    return taken


def call_large(address: str, begin: float, end: float) -> float:
    """Points of large clouds that were answered from `begin` to `end`, of time.monotonic.

    A call that reaches over an end counts with the share of its time that lies inside.
    """
    message, points = request(cube(LARGE), LARGE_SAMPLES), 0.0
    with grpc.insecure_channel(address, options=UNLIMITED) as channel:
        call = channel.unary_unary(SAMPLE)
        while (sent := time.monotonic()) < end:
            # Refused or cut off: it sends again.
            with suppress(grpc.RpcError):
                call(message)
                answered = time.monotonic()
                inside = min(answered, end) - max(sent, begin)
                points += LARGE * max(inside, 0) / (answered - sent)
    return points


def turn(server: Server, callers: int, seconds: float, pool: ProcessPoolExecutor) -> Figures:
    """The small caller alone, and beside the large ones."""
    alone: Future[list[float]] = pool.submit(call_small, server.address, seconds / 2)
    alone.result()
    begin = time.monotonic() + WARM_UP_S
    end = begin + seconds
    large = [pool.submit(call_large, server.address, begin, end) for _ in range(callers)]
    time.sleep(begin - time.monotonic())
    beside = pool.submit(call_small, server.address, seconds)
    points = sum(caller.result() for caller in large)
    return Figures(alone.result(), beside.result(), [points / seconds])


@contextmanager
def servers(before: Path | None) -> Iterator[dict[str, Server]]:
    """This checkout's server, and that of `before`, each stopped until its turn."""
    checkouts = {"after": ROOT} if before is None else {"before": before, "after": ROOT}
    with ExitStack() as stack:
        started = {
            name: stack.enter_context(
                serving(str(echo_server(path)), "kernels", variables=environment(path))
            )
            for name, path in checkouts.items()
        }
        for server in started.values():
            server.pause()
        yield started


def measure(options: argparse.Namespace) -> dict[str, Figures]:
    spawn = multiprocessing.get_context("spawn")
    with (
        servers(options.before and options.before.resolve()) as started,
        ProcessPoolExecutor(options.callers + 1, spawn) as pool,
    ):
        figures = {name: Figures() for name in started}
        for number in range(options.rounds):
            for name in list(started)[:: -1 if number % 2 else 1]:
                with started[name].awake():
                    one = turn(started[name], options.callers, options.seconds, pool)
                for key, more in vars(one).items():
                    getattr(figures[name], key).extend(more)
                print(name, row(name, one), flush=True)
    return figures


def row(name: str, figures: Figures) -> str:
    alone, beside = (statistics.median(t) * 1e3 for t in (figures.alone, figures.beside))
    ordered = sorted(figures.beside)
    p99 = ordered[math.ceil(0.99 * len(ordered)) - 1] * 1e3
    points = statistics.median(figures.points_per_s) / 1e6
    cells = (
        f"{alone:.2f}",
        f"{beside:.2f}",
        f"{beside / alone:.2f}",
        f"{p99:.1f}",
        f"{points:.2f}",
    )
    return f"| {name} | {' | '.join(cells)} | {len(ordered)} |"


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser("benchmarks.attacks fairness", description=__doc__)
    parser.add_argument("--before", type=Path, help="a checkout with compiled ops")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=8.0, help="of a turn")
    parser.add_argument("--callers", type=int, default=3, help="with large clouds")
    options = parser.parse_args(arguments)
    figures = measure(options)
    print(f"Load average {os.getloadavg()[0]:.1f}; {os.cpu_count()} cores.")
    print("| server | alone p50 ms | beside p50 ms | ratio | p99 ms | large Mpoints/s | calls |")
    print("|---|---|---|---|---|---|---|")
    for name, one in figures.items():
        print(row(name, one))


if __name__ == "__main__":
    main([])
