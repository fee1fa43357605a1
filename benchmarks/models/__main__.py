"""Load benchmark of a served PointNet++ beside the same program in other model servers.

    python -m benchmarks.models [--quick] [--peers none] [--rounds 3] [--results FOLDER]

Prints a table and writes benchmarks/results/models.json. Every server loads one archive:
the same graph, weights and compiled ops, with as many threads; their logits agree to 1e-4 before
anything is timed. As in benchmarks.service, whose rounds these are, all servers are up and those
that are not measured are stopped; figures are medians of the rounds, peers are installed in
environments of their own, and one that does not start or answers wrongly is left out by name.

"In this process" is the program called in a loop with no server before it, one cloud or sixteen at
a time: no server that runs this program can do better by much.
"""

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

from benchmarks.common.machine import describe
from benchmarks.common.point_sets import sphere
from benchmarks.models.contenders import JOINED, own, peers, program, serving_own, theirs
from benchmarks.models.report import markdown, ratios
from benchmarks.service.contenders import CORES, Peer
from benchmarks.service.environments import peer_versions
from benchmarks.service.fleet import Effort, Fleet, fleet, right, rounds_of
from benchmarks.service.load import Contender
from benchmarks.service.processes import Server
from farpoint_models.programs.program import Flat

RESULTS = Path(__file__).parents[1] / "results"
OWN: dict[str, tuple[str, ...]] = {
    "farpoint": (),
    "farpoint, one batch at a time": ("--cpu-threads", str(CORES)),
    "farpoint, two CPU engines": ("--device", "cpu,cpu"),
}

Row = dict[str, Any]


def measure(effort: Effort, sizes: Sequence[int], threads: int, with_peers: bool) -> Row:
    """All rows, the ratios to the best peer, and what they were measured with."""
    begun, load_average = time.monotonic(), os.getloadavg()
    with ExitStack() as stack:
        archive = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "pointnet2.pt2"
        run = program(archive).on(torch.device("cpu"))
        clouds = {n: sphere(n) for n in sizes}
        expected = {n: _call(run, cloud[None])[0] for n, cloud in clouds.items()}
        others = peers(archive, threads) if with_peers else ()
        ours = {
            name: stack.enter_context(serving_own(archive, *flags)) for name, flags in OWN.items()
        }
        at_start = clouds[sizes[0]], expected[sizes[0]]

        def probe(peer: Peer, server: Server) -> Contender:
            return theirs(peer, server, *at_start)

        ships = stack.enter_context(fleet(ours, others, probe))
        rows = []
        for n in sizes:
            rows += _alone(run, clouds[n], effort)
            rows += _rows(ships, ours, clouds[n], expected[n], effort)
    return {
        "machine": describe("farpoint-server", "grpcio", "numpy", "torch"),
        "peer_versions": peer_versions(dict.fromkeys(p.environment for p in others)),
        "load_average": load_average,
        "minutes": (time.monotonic() - begun) / 60,
        "rounds": effort.rounds,
        "seconds": effort.seconds,
        "threads": threads,
        "ratios": ratios(rows),
        "rows": rows,
        "servers": {"program": list(ships.weights.values())},
        "left_out": ships.left_out,
    }


def _rows(
    ships: Fleet,
    ours: dict[str, Server],
    cloud: np.ndarray,
    expected: np.ndarray,
    effort: Effort,
) -> list[Row]:
    contenders = [own(server, name, cloud, expected) for name, server in ours.items()]
    contenders += [theirs(p, ships.servers[n], cloud, expected) for n, p in ships.peers.items()]
    contenders = right(contenders, ships)
    rows = []
    for callers in effort.concurrency:
        for row in rounds_of(contenders, ships, callers, effort):
            rows.append({"points": len(cloud), **row})
            print(json.dumps(rows[-1]), flush=True)
    return rows


def _alone(run: Flat, cloud: np.ndarray, effort: Effort) -> list[Row]:
    """The program in a loop of this process, one cloud and then sixteen at a time."""
    rows = []
    for clouds in (1, JOINED):
        batch = np.repeat(cloud[None], clouds, axis=0)
        _call(run, batch)
        rounds = [_loop(run, batch, effort.seconds) for _ in range(effort.rounds)]
        figures = {key: median(row[key] for row in rounds) for key in rounds[0]}
        rows.append({"points": len(cloud), "server": "in this process", "at": clouds, **figures})
        print(json.dumps(rows[-1]), flush=True)
    return rows


def _loop(run: Flat, batch: np.ndarray, seconds: float) -> Row:
    times: list[float] = []
    cpu, begun = time.process_time(), time.perf_counter()
    while time.perf_counter() < begun + seconds:
        sent = time.perf_counter()
        _call(run, batch)
        times.append(time.perf_counter() - sent)
    elapsed, calls = time.perf_counter() - begun, len(times) * len(batch)
    return {
        "p50_ms": 1e3 * median(times),
        "p99_ms": 1e3 * max(times),
        "per_s": calls / elapsed,
        "cpu_ms": 1e3 * (time.process_time() - cpu) / calls,
        "calls": calls,
    }


def _call(run: Flat, points: np.ndarray) -> np.ndarray:
    with torch.no_grad():
        (logits,) = run([torch.from_numpy(points)])
    found: np.ndarray = logits.numpy()
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one short round")
    parser.add_argument("--peers", choices=("all", "none"), default="all")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.5, help="of a turn")
    parser.add_argument("--points", type=int, nargs="+", default=(1024, 4096))
    parser.add_argument("--callers", type=int, nargs="+", default=(1, 16))
    parser.add_argument("--threads", type=int, default=CORES, help="of each server")
    parser.add_argument("--results", type=Path, help="default: benchmarks/results, not if --quick")
    options = parser.parse_args(arguments)
    # Ended from outside, it still ends its servers, which may be stopped at that moment.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    os.environ["OMP_NUM_THREADS"] = str(options.threads)
    torch.set_num_threads(options.threads)
    rounds, seconds = (1, 0.3) if options.quick else (options.rounds, options.seconds)
    effort = Effort(rounds, seconds, tuple(options.callers))
    report = measure(effort, options.points, options.threads, options.peers == "all")
    print(markdown(report))
    folder = options.results or (None if options.quick else RESULTS)
    if folder:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "models.json").write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
