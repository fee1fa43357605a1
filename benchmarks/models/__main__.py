"""Load benchmark of a served PointNet++ and the same program in other model servers.

    python -m benchmarks.models [--quick] [--peers none] [--results FOLDER]

Prints a table and writes benchmarks/results/models.json. Every server loads one archive:
the same graph, weights and compiled ops, with as many threads; their logits agree to 1e-4 before
anything is timed. Rounds and peers are those of benchmarks.service.

"In this process" is the program called in a loop with no server before it, one cloud or sixteen at
a time: no server that runs this program can do better by much.
"""

import os
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from statistics import median

import numpy as np
import torch

from benchmarks.common.point_sets import sphere
from benchmarks.common.report import Row, shown
from benchmarks.models.contenders import JOINED, contender, peers, program
from benchmarks.service.contenders import CORES, Peer
from benchmarks.service.fleet import Effort, Report, fleet, parse_options, right
from benchmarks.service.load import Contender, percentiles_ms
from benchmarks.service.processes import Server, serving_farpoint
from benchmarks.service.wires import TENSOR_OVER_OIP
from farpoint_models.programs.program import Flat

SIZES = (1024, 4096)
FULL, QUICK = Effort(3, 1.5, (1, 16)), Effort(1, 0.3, (1, 16))
OWN: dict[str, tuple[str, ...]] = {
    "farpoint": (),
    "farpoint, one batch at a time": ("--cpu-threads", str(CORES)),
    "farpoint, two CPU engines": ("--device", "cpu,cpu"),
}


def alone(run: Flat, cloud: np.ndarray, effort: Effort) -> list[Row]:
    """The program in a loop of this process, one cloud and then sixteen at a time."""
    rows = []
    for clouds in (1, JOINED):
        batch = np.repeat(cloud[None], clouds, axis=0)
        _call(run, batch)
        rounds = [_loop(run, batch, effort.seconds) for _ in range(effort.rounds)]
        figures = {key: median(row[key] for row in rounds) for key in rounds[0]}
        row = {"points": len(cloud), "server": "in this process", "at": clouds}
        rows.append(shown(row | figures))
    return rows


def _loop(run: Flat, batch: np.ndarray, seconds: float) -> Row:
    times: list[float] = []
    cpu, begun = time.process_time(), time.perf_counter()
    while time.perf_counter() < begun + seconds:
        sent = time.perf_counter()
        _call(run, batch)
        times.append(time.perf_counter() - sent)
    elapsed, calls = time.perf_counter() - begun, len(times) * len(batch)
    cpu_ms = 1e3 * (time.process_time() - cpu) / calls
    return {**percentiles_ms(times), "per_s": calls / elapsed, "cpu_ms": cpu_ms, "calls": calls}


def _call(run: Flat, points: np.ndarray) -> np.ndarray:
    with torch.no_grad():
        (logits,) = run([torch.from_numpy(points)])
    found: np.ndarray = logits.numpy()
    return found


def main() -> None:
    options = parse_options(__doc__)
    effort = QUICK if options.quick else FULL
    os.environ["OMP_NUM_THREADS"] = str(CORES)
    torch.set_num_threads(CORES)
    report = Report(effort)
    with ExitStack() as stack:
        archive = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "pointnet2.pt2"
        run = program(archive).on(torch.device("cpu"))
        cases = {n: (sphere(n), _call(run, sphere(n)[None])[0]) for n in SIZES}
        others = peers(archive) if options.peers == "all" else ()
        flags = ("--encoder", "none", "--model", f"cloud={archive}")
        ours = {
            name: stack.enter_context(serving_farpoint(*flags, *more)) for name, more in OWN.items()
        }

        def theirs(peer: Peer, server: Server, points: int = SIZES[0]) -> Contender:
            return contender(peer.name, server, peer.wire, *cases[points])

        ships = stack.enter_context(fleet(ours, others, theirs))
        for n, case in cases.items():
            report.rows += alone(run, case[0], effort)
            contenders = [contender(k, s, TENSOR_OVER_OIP, *case) for k, s in ours.items()]
            contenders += [theirs(p, ships.servers[k], n) for k, p in ships.peers.items()]
            report.measure(right(contenders, ships), ships, {"points": n})
    report.publish("models", options, others, [ships])


if __name__ == "__main__":
    main()
