"""Bytes that the kernels of gather, scatter, search and interpolate move, over those they need.

Nothing is timed: nvcc's PTX for sm_90 is executed on a CPU, and each warp's requests are counted.
Needs nvcc and a C++ compiler, no GPU. Run as `python -m benchmarks.cuda.traffic [name]`, which
prints the Markdown table of docs/performance_cuda.md.
"""

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from tests.support.clouds import street_scan
from tests.support.cuda.model import executing
from tests.support.cuda.on_cpu import call, search_batch
from tests.support.cuda.traffic import (
    COUNTED,
    SECTOR,
    Traffic,
    aligned,
    aligned_copy,
    counted,
    on_processors,
)

import farpoint_ops

PROCESSORS = 132
Array = NDArray[np.generic]


@dataclass(frozen=True)
class Case:
    """One call.

    Args:
        op: And the way that it takes, if there are several.
        shape: For people.
        arrays: Inputs and outputs, which have to be read or written once.
        run: The call.
    """

    op: str
    shape: str
    arrays: Sequence[Array]
    run: Callable[[], None]

    @property
    def needed(self) -> int:
        return sum(array.nbytes for array in self.arrays)


def scan(rng: np.random.Generator, points: int) -> NDArray[np.float32]:
    """Rows of a real street scan in random order; beyond its end, of copies moved a little."""
    street = street_scan()[:, :3]
    copies = [street + np.float32(0.01 * i) for i in range(-(-points // len(street)))]
    return np.ascontiguousarray(rng.permutation(np.concatenate(copies))[:points])


def neighbors(points: int, queries: int, k: int, batch: int) -> NDArray[np.int32]:
    """Rows of a scan that are the k nearest to each of so many of it, (batch, queries, k)."""
    rng = np.random.default_rng(points + k)
    clouds = torch.from_numpy(np.stack([scan(rng, points) for _ in range(batch)]))
    asked = torch.from_numpy(rng.integers(0, points, (batch, queries, 1)).repeat(3, axis=2))
    rows = farpoint_ops.knn(clouds, clouds.gather(1, asked), k)[0]
    return aligned_copy(rows.numpy())


def sampled(points: int, samples: int, batch: int) -> NDArray[np.int32]:
    """Rows of samples, none twice, (batch, samples)."""
    rng = np.random.default_rng(samples)
    rows = [rng.permutation(points)[:samples] for _ in range(batch)]
    return aligned_copy(np.stack(rows).astype(np.int32))


def gathers() -> Iterator[Case]:
    """Gather of samples, group of neighborhoods, and both of rows too long for shared memory."""
    for name, batch, points, idx in (
        ("group_points", 8, 4096, neighbors(4096, 1024, 32, 8)),
        ("gather_points", 8, 4096, sampled(4096, 1024, 8)),
        ("gather_points, long rows", 1, 65_536, sampled(65_536, 16_384, 1)),
        ("group_points, long rows", 1, 65_536, neighbors(65_536, 8192, 16, 1)),
    ):
        channels, samples = 64, idx.size // batch
        features = aligned((batch, channels, points), np.float32)
        out = aligned((batch, channels, samples), np.float32)
        shape = (batch, channels, points, samples)
        gather = partial(call, "gather", features, idx, out, shape, 4, False)
        vectors = partial(call, "gather_vectors", features, idx, None, out, shape, 1, False, False)
        yield Case(
            name,
            f"({batch}, {channels}, {points}) to {samples}",
            (features, idx, out),
            vectors if name.startswith("group_points, long") else gather,
        )


def scatters() -> Iterator[Case]:
    """The backward of the same, by every method."""
    group, rows = neighbors(4096, 1024, 32, 8), sampled(4096, 1024, 8)
    long = neighbors(65_536, 8192, 16, 1)
    for name, idx, points, method in (
        ("scatter, rows", group, 4096, 0),
        ("scatter, rows, distinct", rows, 4096, 0),
        ("scatter, vectors", long, 65_536, 1),
        ("scatter, in order", group, 4096, 2),
        ("scatter, in order, long rows", long, 65_536, 2),
    ):
        batch, channels, samples = len(idx), 64, idx.size // len(idx)
        values = aligned((batch, channels, samples), np.float32)
        out = aligned((batch, channels, points), np.float32)
        shape = (batch, channels, points, samples)
        yield Case(
            name,
            f"({batch}, {channels}, {samples}) to {points}",
            (values, idx, out),
            partial(call, "scatter", values, idx, None, out, shape, 1, False, False, method, 0),
        )


def searches() -> Iterator[Case]:
    """Searches of a scan by looking at every row, and in a spatial index that is made for it."""
    rng = np.random.default_rng(7)
    points, few = 16_384, 1024
    cloud = aligned_copy(scan(rng, points)[None])
    queries, samples = aligned_copy(cloud[:, :few]), aligned_copy(cloud[:, : 4 * few])
    for indexed in (False, True):
        how = ", index" if indexed else ""
        batch = search_batch(cloud, queries, None, indexed)
        turned = search_batch(samples, cloud, None, indexed)
        for k in (3, 16):
            found = aligned((1, few, k), np.int32), aligned((1, few, k), np.float32)
            run = partial(call, "knn", batch, k, *found, False)
            yield Case(f"knn, k = {k}{how}", f"{few} in {points}", (cloud, queries, *found), run)
        found = aligned((1, few, 32), np.int32), aligned((1, few), np.int32)
        run = partial(call, "ball_query", batch, 0.0, 1.0, 32, *found)
        name = f"ball_query, 1 m, k = 32{how}"
        yield Case(name, f"{few} in {points}", (cloud, queries, *found), run)
        found = aligned((1, points), np.int32), aligned((1, points), np.float32)
        run = partial(call, "nearest", turned, None, *found)
        name, shape = f"nearest_sample{how}", f"{points} in {4 * few}"
        yield Case(name, shape, (cloud, samples, *found), run)


def interpolations() -> Iterator[Case]:
    """From 1024 points back to 4096, three corners each, and the two derivatives."""
    for batch in (16, 64):
        channels, points, columns, corners = 128 * 16 // batch, 4096, 1024, 3
        idx = neighbors(columns, points, corners, batch)
        weight = aligned((batch, points, corners), np.float32)
        features = aligned((batch, channels, columns), np.float32)
        values = aligned((batch, channels, points), np.float32)
        shape, types = (batch, channels, points, columns, corners), (False, False)
        of_scatter = (batch, channels, columns, points * corners)
        calls: dict[str, Callable[[], None]] = {
            "interpolate": partial(
                call, "interpolate", features, idx, weight, values, shape, *types
            ),
            "interpolate_scatter": partial(
                call, "scatter", values, idx, weight, features, of_scatter, corners, *types, 0, 0
            ),
            "interpolate_dot": partial(
                call, "interpolate_dot", values, features, idx, weight, shape, *types
            ),
        }
        for name, run in calls.items():
            sizes = f"({batch}, {channels}, {columns}) and {points}, {corners} corners"
            yield Case(name, sizes, (features, idx, weight, values), run)


def cases() -> Iterator[Case]:
    for part in (gathers, scatters, searches, interpolations):
        yield from part()


def row(case: Case, traffic: Traffic) -> str:
    """Of the table."""
    moved = (traffic.sectors, traffic.l1_sectors, traffic.launch_sectors)
    ratios = [f"{sectors * SECTOR / case.needed:.2f}" for sectors in moved]
    coalescing = f"{traffic.sectors / traffic.ideal_sectors:.2f}"
    shared = traffic.shared_requests
    conflicts = f"{traffic.wavefronts / traffic.ideal_wavefronts:.2f}" if shared else ""
    cells = (case.op, case.shape, f"{case.needed / 1e6:.2f}", *ratios, coalescing, conflicts)
    return f"| {' | '.join(cells)} | {traffic.instructions / 1e6:.1f} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", nargs="?", default="", help="only ops with this in their name")
    name = parser.parse_args().name
    print(
        "| op | shape | MB needed | moved / needed | with L1 | with L2 | sectors / ideal "
        "| wavefronts / ideal | million lane instructions |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    with executing(COUNTED), on_processors(PROCESSORS):
        for case in cases():
            if name not in case.op:
                continue
            counted()
            case.run()
            print(row(case, counted()), flush=True)


if __name__ == "__main__":
    main()
