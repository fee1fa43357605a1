"""Benchmark of this checkout's CPU ops and another checkout's, in alternating subprocess turns.

    python -m benchmarks.ops.compare --before PATH [--rounds 15]

One process imports each checkout's farpoint_ops and waits for its turns. Both run the same calls
on the same clouds, on one thread, and must return the same bits. Prints medians before and after,
and after over before with the quartiles of the rounds' quotients.
"""

import hashlib
import multiprocessing
import statistics
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import ExitStack
from typing import Any

import torch

from benchmarks.common import checkouts
from benchmarks.common.measure import Contender

SIZES = (1024, 16_384, 120_000)
CHANNELS, NEIGHBORS = 64, 16
RADIUS = 0.5
# Samples of a cloud, and queries of one.
SHARE = 8

SPAWN = multiprocessing.get_context("spawn")
# Of a subprocess: the digest of each call's answer, and the call.
CONTENDERS: dict[str, tuple[str, Contender]] = {}


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


def prepare(folders: Sequence[str], sizes: Sequence[int]) -> None:
    """Makes the contenders of a subprocess that imports packages from these folders."""
    sys.path[:0] = folders
    torch.set_num_threads(1)
    for points in sizes:
        for name, call in calls(points).items():
            CONTENDERS[name] = digest(call()), Contender(call)


def digests() -> dict[str, str]:
    return {name: bits for name, (bits, _) in CONTENDERS.items()}


def turn(name: str) -> float:
    """Milliseconds of one call."""
    return 1e3 * CONTENDERS[name][1].turn()


def compare(before: Executor, after: Executor, name: str, rounds: int) -> str:
    """A row of the table."""
    times: dict[Executor, list[float]] = {before: [], after: []}
    for number in range(rounds):
        for side in (before, after) if number % 2 else (after, before):
            times[side].append(side.submit(turn, name).result())
    old, new = (f"{statistics.median(times[side]):.4g}" for side in (before, after))
    return f"| {name} | {old} | {new} | {checkouts.quotient(times[before], times[after])} |"


def main() -> None:
    options = checkouts.parser(__doc__)
    options.add_argument("--sizes", nargs="+", type=int, default=SIZES)
    chosen = options.parse_args()
    with ExitStack() as stack:
        before, after = (
            stack.enter_context(
                ProcessPoolExecutor(1, SPAWN, prepare, (checkouts.folders(side), chosen.sizes))
            )
            for side in (chosen.before.resolve(), checkouts.ROOT)
        )
        theirs, ours = (side.submit(digests).result() for side in (before, after))
        print("| call | ms before | ms after | a/b |\n|---|---|---|---|")
        for name, bits in ours.items():
            if theirs[name] != bits:
                raise SystemExit(f"{name}: the two checkouts return different bits")
            print(compare(before, after, name, chosen.rounds), flush=True)


if __name__ == "__main__":
    main()
