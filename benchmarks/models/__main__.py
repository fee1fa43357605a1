"""Load benchmark of a served PointNet++ and the same program in other model servers.

    python -m benchmarks.models [--quick] [--peers none]

Prints a table and writes benchmarks/results/models.json. Every server loads one archive:
the same graph, weights and compiled ops, with as many threads; their logits agree to 1e-4 before
anything is timed. Rounds and peers are those of benchmarks.service.
"""

import os
import tempfile
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import torch

from benchmarks.common.point_sets import sphere
from benchmarks.models.contenders import contender, peers, program
from benchmarks.service.contenders import CORES, TENSOR_OVER_OIP, Peer
from benchmarks.service.fleet import Effort, Report, fleet, parse_options, right
from benchmarks.service.load import Contender
from benchmarks.service.processes import Server, serving_farpoint
from farpoint_models.programs.program import Flat

SIZES = (1024, 4096)
FULL, QUICK = Effort(3, 1.5, (1, 16)), Effort(1, 0.3, (1, 16))
OWN: dict[str, tuple[str, ...]] = {
    "farpoint": (),
    "farpoint, one batch at a time": ("--cpu-threads", str(CORES)),
}


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
            contenders = [contender(k, s, TENSOR_OVER_OIP, *case) for k, s in ours.items()]
            contenders += [theirs(p, ships.servers[k], n) for k, p in ships.peers.items()]
            report.measure(right(contenders, ships), ships, {"points": n})
    report.publish("models", options, others, ships)


if __name__ == "__main__":
    main()
