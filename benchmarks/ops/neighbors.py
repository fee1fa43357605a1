"""Benchmarks of knn, ball_query and nearest_sample against other exact searches."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np
import torch

from benchmarks.common.measure import interleaved, seconds_of
from benchmarks.common.point_sets import Cloud, lidar
from benchmarks.common.report import Row, grouped
from benchmarks.ops.neighbor_peers import (
    Numbers,
    Search,
    ball_searches,
    knn_searches,
    nearest_searches,
)
from farpoint_ops import farthest_point_sample, knn

BUDGET_SECONDS = 1.0
LONGEST_CALL_SECONDS = 3.0
K_NEAREST, K_BALL = 16, 32
# Relative, of a float32 squared distance or of a radius: rounding, with room for its order.
TOLERANCE = 1e-5

Checked = Callable[[str], bool]


class Problem(NamedTuple):
    op: str
    size: str
    searches: dict[str, Search]
    agrees: Checked  # whether the peer of that name finds what we find


def _read(search: Search) -> Numbers:
    return search.read(search.run(1))


def _by_distance(points: Cloud, queries: Cloud, searches: dict[str, Search]) -> Checked:
    """Equal distances to the neighbors found; which row a tie gives is left open."""

    def squared(name: str) -> Numbers:
        offsets = points[_read(searches[name])].astype(np.float64) - queries[:, None]
        return np.sort(np.square(offsets).sum(-1), axis=1)

    ours = squared("farpoint")
    return lambda name: np.allclose(ours, squared(name), rtol=TOLERANCE, atol=0)


def _by_count(searches_at: Callable[[float], dict[str, Search]], radius: float) -> Checked:
    """As many points as the peer finds in a ball, or between a smaller and a larger one."""
    ours = _read(searches_at(radius)["farpoint"])
    smaller, larger = (searches_at(radius * f) for f in (1 - TOLERANCE, 1 + TOLERANCE))
    return lambda name: bool(
        np.all(_read(smaller[name]) <= ours) and np.all(ours <= _read(larger[name]))
    )


def _every(cloud: Cloud, count: int) -> Cloud:
    return np.ascontiguousarray(cloud[np.linspace(0, len(cloud) - 1, count).astype(np.int64)])


def _sampled(cloud: Cloud, m: int) -> Cloud:
    idx = farthest_point_sample(torch.from_numpy(cloud)[None], m)[0]
    return np.ascontiguousarray(cloud[idx.numpy()])


def _usual_radius(points: Cloud, queries: Cloud) -> float:
    """Half of the balls of this radius hold K_BALL points."""
    squared = knn(torch.from_numpy(points)[None], torch.from_numpy(queries)[None], K_BALL)[1]
    return float(squared[0, :, -1].sqrt().median())


def nearest_neighbors(points: Cloud, queries: Cloud) -> Problem:
    searches = knn_searches(points, queries, K_NEAREST)
    size = f"{grouped(len(queries))} of {grouped(len(points))}, k = {K_NEAREST}"
    return Problem("knn", size, searches, _by_distance(points, queries, searches))


def balls(points: Cloud, centers: Cloud) -> Problem:
    radius = _usual_radius(points, centers)
    searches_at = partial(ball_searches, points, centers, k=K_BALL)
    size = f"{grouped(len(centers))} of {grouped(len(points))}, {radius:.2f} m, k = {K_BALL}"
    return Problem("ball query", size, searches_at(radius), _by_count(searches_at, radius))


def collapsed_sets(points: Cloud, m: int) -> Problem:
    samples = _sampled(points, m)
    searches = nearest_searches(points, samples)
    agrees = _by_distance(samples, points, searches)
    return Problem("nearest sample", f"{grouped(len(points))} to {grouped(m)}", searches, agrees)


def problems(quick: bool) -> Iterator[Problem]:
    scan, small = lidar(120_000), lidar(16_384)
    some = _every(scan, 16_384)
    yield nearest_neighbors(small, small)
    yield nearest_neighbors(scan, some)
    if not quick:
        yield nearest_neighbors(scan, scan)
    yield balls(small, small)
    yield balls(scan, some)
    yield collapsed_sets(scan, 1024)
    yield collapsed_sets(scan, 16_384)


def _take_part(problem: Problem) -> tuple[dict[str, Search], dict[str, str]]:
    """The peers that are timed, and the reason for each that is not."""
    timed, left_out = {"farpoint": problem.searches["farpoint"]}, {}
    for name, search in problem.searches.items():
        seconds = seconds_of(partial(search.run, 1))
        if seconds > LONGEST_CALL_SECONDS:
            left_out[name] = f"{seconds:.2g} s a call"
        elif name != "farpoint" and not problem.agrees(name):
            left_out[name] = "other results"
        else:
            timed[name] = search
    return timed, left_out


def rows(quick: bool) -> Iterator[Row]:
    for problem in problems(quick):
        yield from _rows(problem)
    torch.set_num_threads(1)


def _rows(problem: Problem) -> Iterator[Row]:
    timed, left_out = _take_part(problem)
    for threads in (1, 2):
        calls = {n: partial(s.run, threads) for n, s in timed.items() if threads <= s.most_threads}
        ms = interleaved(calls, BUDGET_SECONDS)
        yield {
            "op": problem.op,
            "size": problem.size,
            "threads": threads,
            "farpoint_ms": ms.pop("farpoint"),
            "peers_ms": ms,
            "left_out": left_out,
        }
