"""Benchmarks of knn, ball_query and nearest_sample against other exact searches.

A search builds whatever index it needs inside the timed call, as our ops do, since a cloud is
searched once in a forward pass. pykdtree returns distances, not their squares.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

import farpoint_ops
from benchmarks.common.point_sets import Cloud, lidar
from benchmarks.common.report import Row, grouped, interleaved, module, seconds_of
from farpoint_ops import farthest_point_sample, knn

MODULES = ("pykdtree", "torch_cluster", "open3d")
Numbers = npt.NDArray[Any]


class Search(NamedTuple):
    run: Callable[[int], Any]  # with that many threads
    read: Callable[[Any], Numbers]  # of what `run` returned, not timed
    most_threads: int = 2


def _ours(call: Callable[[], Any], read: Callable[[Any], Numbers]) -> Search:
    def run(threads: int) -> Any:
        torch.set_num_threads(threads)
        return call()

    return Search(run, read)


def _openmp_of(package: str) -> Callable[[int], None]:
    """Sets the threads of the OpenMP that a package brought along, which is not that of torch."""
    controllers = module("threadpoolctl")
    libraries = controllers.ThreadpoolController().lib_controllers if controllers else []
    own = [library for library in libraries if package in library.filepath]

    def limit(threads: int) -> None:
        for library in own:
            library.set_num_threads(threads)

    return limit


def knn_searches(points: Cloud, queries: Cloud, k: int) -> dict[str, Search]:
    """The k nearest of `points` to each query; `read` gives rows (M, k)."""
    x, y = torch.from_numpy(points), torch.from_numpy(queries)
    found = {
        "farpoint": _ours(lambda: farpoint_ops.knn(x[None], y[None], k), lambda r: r[0][0].numpy())
    }
    return found | _tree_searches(points, queries, k) | _tensor_searches(x, y, k)


def _tree_searches(points: Cloud, queries: Cloud, k: int) -> dict[str, Search]:
    found: dict[str, Search] = {}
    if (pykdtree := module("pykdtree.kdtree")) and module("threadpoolctl"):
        limit = _openmp_of("pykdtree")

        def run(threads: int) -> Any:
            limit(threads)
            return pykdtree.KDTree(points).query(queries, k)

        found["pykdtree"] = Search(run, lambda result: result[1].reshape(-1, k))
    return found


def _tensor_searches(x: torch.Tensor, y: torch.Tensor, k: int) -> dict[str, Search]:
    found: dict[str, Search] = {}
    if cluster := module("torch_cluster"):
        found["torch_cluster"] = Search(
            lambda _: cluster.knn(x, y, k), lambda edges: edges[1].view(-1, k).numpy(), 1
        )
    if open3d := module("open3d"):
        points, queries = (open3d.core.Tensor(t.numpy()) for t in (x, y))

        def run(threads: int) -> Any:
            open3d.utility.set_max_threads(threads)
            index = open3d.core.nns.NearestNeighborSearch(points)
            index.knn_index()
            return index.knn_search(queries, k)

        found["open3d"] = Search(run, lambda result: result[0].numpy())
    return found


def nearest_searches(points: Cloud, samples: Cloud) -> dict[str, Search]:
    """The sample nearest to each point; `read` gives rows of `samples` (N, 1)."""
    x, y = torch.from_numpy(points), torch.from_numpy(samples)
    found = knn_searches(samples, points, 1)
    found["farpoint"] = _ours(
        lambda: farpoint_ops.nearest_sample(x[None], y[None]), lambda r: r[0].numpy().reshape(-1, 1)
    )
    return found


def ball_searches(points: Cloud, centers: Cloud, radius: float, k: int) -> dict[str, Search]:
    """Up to k points nearer than `radius` to each center; `read` gives how many were found.

    Which k is up to each: ours are those of the lowest rows, torch_cluster's any, Open3D's the
    nearest.
    """
    x, y = torch.from_numpy(points), torch.from_numpy(centers)
    found = {
        "farpoint": _ours(
            lambda: farpoint_ops.ball_query(x[None], y[None], radius, k), lambda r: r[1][0].numpy()
        )
    }
    if cluster := module("torch_cluster"):
        found["torch_cluster"] = Search(
            lambda _: cluster.radius(x, y, radius, max_num_neighbors=k),
            lambda edges: edges[0].bincount(minlength=len(y)).numpy(),
            1,
        )
    if open3d := module("open3d"):
        found["open3d"] = _open3d_ball(open3d, points, centers, radius, k)
    return found


def _open3d_ball(open3d: Any, points: Cloud, centers: Cloud, radius: float, k: int) -> Search:
    x, y = open3d.core.Tensor(points), open3d.core.Tensor(centers)

    def run(threads: int) -> Any:
        open3d.utility.set_max_threads(threads)
        index = open3d.core.nns.NearestNeighborSearch(x)
        index.hybrid_index(radius)
        return index.hybrid_search(y, radius, k)

    return Search(run, lambda result: result[2].numpy())


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
