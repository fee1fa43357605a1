"""Adapters to other exact CPU neighbor searches, each used where it is installed.

A search builds whatever index it needs inside the timed call, as our ops do, since a cloud is
searched once in a forward pass. SciPy and pykdtree return distances, not their squares.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

import farpoint_ops
from benchmarks.common.point_sets import Cloud
from benchmarks.common.report import module

MODULES = ("scipy", "pykdtree", "torch_cluster", "open3d")
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
    if spatial := module("scipy.spatial"):
        found["scipy"] = Search(
            lambda threads: spatial.cKDTree(points).query(queries, k, workers=threads),
            lambda result: result[1].reshape(-1, k),
        )
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
    if cluster := module("torch_cluster"):
        found["torch_cluster.nearest"] = Search(
            lambda _: cluster.nearest(x, y), lambda rows: rows.numpy()[:, None], 1
        )
    return found


def ball_searches(points: Cloud, centers: Cloud, radius: float, k: int) -> dict[str, Search]:
    """Up to k points nearer than `radius` to each center; `read` gives how many were found.

    Which k is up to each: ours are those of the lowest rows, torch_cluster's any, Open3D's the
    nearest, and SciPy returns all, as lists.
    """
    x, y = torch.from_numpy(points), torch.from_numpy(centers)
    found = {
        "farpoint": _ours(
            lambda: farpoint_ops.ball_query(x[None], y[None], radius, k), lambda r: r[1][0].numpy()
        )
    }
    if spatial := module("scipy.spatial"):
        found["scipy"] = Search(
            lambda threads: spatial.cKDTree(points).query_ball_point(
                centers, radius, workers=threads
            ),
            lambda lists: np.minimum([len(rows) for rows in lists], k),
        )
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
