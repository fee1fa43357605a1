"""Benchmark of this checkout's CPU ops and another checkout's, in alternating subprocess turns.

    python -m benchmarks.ops.compare --before PATH [--rounds 15]

One process imports each checkout's farpoint_ops and waits for its turns. Both run the same calls
on the same clouds, on one thread, and must return the same bits. Prints medians before and after,
and after over before with the quartiles of the rounds' quotients.
"""

import hashlib
import json
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch

from benchmarks.common import checkouts
from benchmarks.common.measure import Contender

SIZES = (1024, 16_384, 120_000)
CHANNELS, NEIGHBORS = 64, 16
RADIUS = 0.5
# Samples of a cloud, and queries of one.
SHARE = 8

Turn = Callable[[], float]


def calls(points: int) -> dict[str, Callable[[], Any]]:
    """Named calls of farpoint_ops on a lidar scan of so many points."""
    import farpoint_ops
    from benchmarks.common.point_sets import lidar

    cloud = torch.from_numpy(lidar(points))[None]
    generator = torch.Generator().manual_seed(0)
    features = torch.rand(1, CHANNELS, points, generator=generator)
    idx = torch.randint(points, (1, points), generator=generator, dtype=torch.int32)
    few = cloud[:, ::SHARE].contiguous()
    m = points // SHARE
    return {
        f"fps {points} -> {m}": lambda: farpoint_ops.furthest_point_sample(cloud, m),
        f"gather {CHANNELS} x {points}": lambda: farpoint_ops.gather_points(features, idx),
        f"knn {m} of {points}": lambda: farpoint_ops.knn(cloud, few, NEIGHBORS),
        f"ball query {m} of {points}": lambda: farpoint_ops.ball_query(
            cloud, few, RADIUS, NEIGHBORS
        ),
    }


def digest(result: Any) -> str:
    tensors = result if isinstance(result, tuple) else (result,)
    return hashlib.sha256(b"".join(t.numpy().tobytes() for t in tensors)).hexdigest()


def work(sizes: Sequence[int]) -> None:
    """The subprocess: prints the digest of each call, then the seconds of each name it reads."""
    torch.set_num_threads(1)
    found = {name: call for points in sizes for name, call in calls(points).items()}
    print(json.dumps({name: digest(call()) for name, call in found.items()}), flush=True)
    contenders = {name: Contender(call) for name, call in found.items()}
    for line in sys.stdin:
        print(contenders[line.strip()].turn(), flush=True)


class Worker:
    """A subprocess that imports the packages of one checkout."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self.digests: dict[str, str] = json.loads(self._read())

    def turn(self, name: str) -> float:
        """Seconds of one call."""
        assert self._process.stdin is not None
        print(name, file=self._process.stdin, flush=True)
        return float(self._read())

    def _read(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"a worker ended with {self._process.wait()}")
        return line


@contextmanager
def worker(checkout: Path, sizes: Sequence[int]) -> Iterator[Worker]:
    command = [sys.executable, "-m", "benchmarks.ops.compare", "--worker", *map(str, sizes)]
    with subprocess.Popen(
        command,
        cwd=checkouts.ROOT,
        env=checkouts.environment(checkout),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield Worker(process)


def compare(before: Worker, after: Worker, name: str, rounds: int) -> str:
    """A row of the table."""
    if before.digests[name] != after.digests[name]:
        raise SystemExit(f"{name}: the two checkouts return different bits")
    times: dict[Worker, list[float]] = {before: [], after: []}
    for number in range(rounds):
        for side in (before, after) if number % 2 else (after, before):
            times[side].append(1e3 * side.turn(name))
    old, new = (f"{statistics.median(times[side]):.4g}" for side in (before, after))
    return f"| {name} | {old} | {new} | {checkouts.quotient(times[before], times[after])} |"


def main() -> None:
    if sys.argv[1:2] == ["--worker"]:
        work([int(size) for size in sys.argv[2:]])
        return
    options = checkouts.parser(__doc__)
    options.add_argument("--sizes", nargs="+", type=int, default=SIZES)
    chosen = options.parse_args()
    with ExitStack() as stack:
        sides = (chosen.before.resolve(), checkouts.ROOT)
        before, after = (stack.enter_context(worker(side, chosen.sizes)) for side in sides)
        print("| call | ms before | ms after | a/b |\n|---|---|---|---|")
        for name in after.digests:
            print(compare(before, after, name, chosen.rounds), flush=True)


if __name__ == "__main__":
    main()
