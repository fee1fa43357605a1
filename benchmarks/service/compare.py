"""Load benchmark of this checkout's server and another checkout's, interleaved in one run.

    python -m benchmarks.service.compare --before PATH [--rounds 15] [--seconds 0.8]

Echo (everything but the kernels) and Sample of 1024, 16 384 and 120 000 points at 1, 16 and 64
callers. Both servers have a turn in each round, in alternating order, the other one stopped; the
requests are the same bytes, and so must the answers be, but for their timings. Prints the medians
before and after, and after over before with the quartiles of the rounds' quotients.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from benchmarks.common.checkouts import ROOT, environment, parser, quotient
from benchmarks.common.point_sets import lidar
from benchmarks.service.load import SAMPLE, Contender, load, once, request
from benchmarks.service.processes import Server, serving
from farpoint.v1 import sampling_pb2 as pb

SIZES = (1024, 16_384, 120_000)
CALLERS = (1, 16, 64)
MODES = {"echo": "farpoint", "sample": "kernels"}
SAMPLES = 1024
FIGURES = {"p50_ms": "p50 ms", "per_s": "calls/s", "cpu_ms": "server CPU ms"}

Pair = tuple[Contender, Contender]
Rounds = list[dict[str, float]]


def echo_server(checkout: Path) -> Path:
    """The checkout's own, since it reaches into that checkout's engine."""
    places = [checkout / "benchmarks" / part for part in ("service", "")]
    return next(p for place in places if (p := place / "echo_server.py").is_file())


@contextmanager
def both(before: Path, kind: str) -> Iterator[tuple[Server, Server]]:
    """The server of either checkout, stopped until its turn."""
    with (
        serving(str(echo_server(before)), kind, variables=environment(before)) as theirs,
        serving(str(echo_server(ROOT)), kind, variables=environment(ROOT)) as ours,
    ):
        for server in (theirs, ours):
            server.pause()
        yield theirs, ours
        for server in (theirs, ours):
            server.resume()


def pair(servers: tuple[Server, Server], mode: str, cloud: np.ndarray) -> Pair:
    """The same request to both.

    Raises:
        SystemExit: they answer differently.
    """
    echoed = mode == "echo"
    data = request(cloud, len(cloud) if echoed else min(SAMPLES, len(cloud)), return_points=echoed)
    before, after = (Contender(mode, s, SAMPLE, data, lambda _: None) for s in servers)
    if _answer(before) != _answer(after):
        raise SystemExit(f"{mode} of {len(cloud)} points: the two checkouts answer differently")
    return before, after


def _answer(contender: Contender) -> tuple[bytes, bytes]:
    with contender.server.awake():
        response = pb.SampleResponse.FromString(once(contender))
    return response.indices.data, response.points.data


def turns(contenders: Pair, callers: int, rounds: int, seconds: float) -> tuple[Rounds, Rounds]:
    measured: tuple[Rounds, Rounds] = ([], [])
    for number in range(rounds):
        for side in (0, 1) if number % 2 else (1, 0):
            with contenders[side].server.awake():
                measured[side].append(load(contenders[side], callers, seconds))
    return measured


def row(where: Sequence[object], before: Rounds, after: Rounds) -> str:
    cells = [str(cell) for cell in where]
    for key in FIGURES:
        olds, news = ([figures[key] for figures in side] for side in (before, after))
        cells += [f"{np.median(olds):.4g}", f"{np.median(news):.4g}", quotient(olds, news)]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--seconds", type=float, default=0.8, help="of a turn")
    options.add_argument("--modes", nargs="+", choices=MODES, default=list(MODES))
    options.add_argument("--sizes", nargs="+", type=int, default=SIZES)
    options.add_argument("--callers", nargs="+", type=int, default=CALLERS)
    chosen = options.parse_args()
    titles = [f"{name} {what}" for name in FIGURES.values() for what in ("before", "after", "a/b")]
    print(f"| mode | N | callers | {' | '.join(titles)} |")
    print("|" + "---|" * (3 + len(titles)))
    for mode in chosen.modes:
        with both(chosen.before.resolve(), MODES[mode]) as servers:
            for points in chosen.sizes:
                contenders = pair(servers, mode, lidar(points))
                for callers in chosen.callers:
                    found = turns(contenders, callers, chosen.rounds, chosen.seconds)
                    print(row((mode, points, callers), *found), flush=True)


if __name__ == "__main__":
    main()
