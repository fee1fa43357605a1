"""Drop-in for ``torch_cluster``'s fps, knn, radius, nearest and grid_cluster, and their graphs.

Change ``import torch_cluster`` to ``from farpoint_ops.compat import torch_cluster``. PyTorch
Geometric takes it too, where this comes before its first import::

    import sys
    from farpoint_ops.compat import torch_cluster
    sys.modules["torch_cluster"] = torch_cluster

Points are (n, D) of any dimension, integers too, which are computed in float64; `batch` is the
cloud of each, ascending. Indices are int64 and carry no gradient. A point at exactly the radius is
outside, and of more than `max_num_neighbors` the lowest rows are taken; neighbors of `knn` are
nearest first.
"""

import torch
from torch import Tensor
from torch.nn.functional import pad

from farpoint_ops._sampling_arguments import Start
from farpoint_ops.compat._clouds import (
    computable,
    cosine_pairs,
    farthest_in_any_space,
    nearest_in,
    pairs_of_clouds,
    sizes_of,
    squared_pairs,
    within,
)
from farpoint_ops.fps import farthest_point_sample_ragged


def fps(
    src: Tensor,
    batch: Tensor | None = None,
    ratio: float | Tensor | None = None,
    random_start: bool = True,
    batch_size: int | None = None,
    ptr: Tensor | list[int] | None = None,
) -> Tensor:
    """Rows of the samples of each cloud: the share `ratio` of its points, rounded up; 0.5.

    With a `ratio` above 1 all points, each once.
    """
    rows: Tensor = _fps(src, batch, ratio, random_start, batch_size, ptr)
    return rows


@torch.jit.ignore  # type: ignore[untyped-decorator]  # so that scripted code may call fps
def _fps(
    src: Tensor,
    batch: Tensor | None,
    ratio: float | Tensor | None,
    random_start: bool,
    batch_size: int | None,
    ptr: Tensor | list[int] | None,
) -> Tensor:
    points = computable(src[:, None] if src.dim() == 1 else src.flatten(1))
    if ptr is None:
        sizes = torch.tensor(sizes_of(batch, points, batch_size))
    else:
        sizes = torch.as_tensor(ptr).cpu().diff()
    share = torch.as_tensor(0.5 if ratio is None else ratio).cpu().float().expand(len(sizes))
    counts = (sizes.float() * share).ceil().long().minimum(sizes)[sizes > 0]
    if not counts.any():
        return torch.empty(0, dtype=torch.int64, device=src.device)
    offsets = pad(sizes[sizes > 0].cumsum(0), (1, 0))
    start: Start = "random" if random_start else 0
    sample = farthest_in_any_space if points.size(1) > 64 else farthest_point_sample_ragged
    return sample(points.detach(), offsets, counts, start=start).long()


def knn(
    x: Tensor,
    y: Tensor,
    k: int,
    batch_x: Tensor | None = None,
    batch_y: Tensor | None = None,
    cosine: bool = False,
    num_workers: int = 1,  # noqa: ARG001  threads are torch's
    batch_size: int | None = None,
) -> Tensor:
    """For each of `y` its k nearest of `x` in its cloud: rows of `y` and of `x`, (2, E)."""
    x, y = _columns(x), _columns(y)
    edges = [torch.empty(2, 0, dtype=torch.int64, device=x.device)]
    pairs = cosine_pairs if cosine else squared_pairs
    for cloud, queries in _clouds(x, y, batch_x, batch_y, batch_size):
        count = min(k, cloud.stop - cloud.start)
        found = nearest_in(x[cloud], y[queries], count, pairs) + cloud.start
        rows = torch.arange(queries.start, queries.stop, device=x.device)
        edges.append(torch.stack([rows.repeat_interleave(count), found.flatten()]))
    return torch.cat(edges, dim=1)


def radius(
    x: Tensor,
    y: Tensor,
    r: float,
    batch_x: Tensor | None = None,
    batch_y: Tensor | None = None,
    max_num_neighbors: int = 32,
    num_workers: int = 1,  # noqa: ARG001
    batch_size: int | None = None,
    ignore_same_index: bool = False,
) -> Tensor:
    """For each of `y` the points of `x` nearer than r: rows of `y` and of `x`, (2, E)."""
    x, y = _columns(x), _columns(y)
    edges = [torch.empty(2, 0, dtype=torch.int64, device=x.device)]
    most = max_num_neighbors + int(ignore_same_index)
    for cloud, queries in _clouds(x, y, batch_x, batch_y, batch_size) if r > 0 else ():
        found, taken = within(x[cloud], y[queries], r, most)
        found = found + cloud.start
        rows = torch.arange(queries.start, queries.stop, device=x.device)[:, None].expand_as(found)
        if ignore_same_index:
            taken = taken & (found != rows)
            taken = taken & (taken.cumsum(1) <= max_num_neighbors)
        edges.append(torch.stack([rows[taken], found[taken]]))
    return torch.cat(edges, dim=1)


def knn_graph(
    x: Tensor,
    k: int,
    batch: Tensor | None = None,
    loop: bool = False,
    flow: str = "source_to_target",
    cosine: bool = False,
    num_workers: int = 1,
    batch_size: int | None = None,
) -> Tensor:
    """Edges (2, E) from each point's k nearest neighbors to it; `flow` may turn them round."""
    most = k if loop else k + 1
    row, col = knn(x, x, most, batch, batch, cosine, num_workers, batch_size)
    if not loop:
        others = row != col
        # A point that coincides with more than k others need not be among its own neighbors.
        rank = others.cumsum(0)
        before = pad(rank, (1, 0))[torch.searchsorted(row, row)]
        others = others & (rank - before <= k)
        row, col = row[others], col[others]
    return _directed(row, col, flow)


def radius_graph(
    x: Tensor,
    r: float,
    batch: Tensor | None = None,
    loop: bool = False,
    max_num_neighbors: int = 32,
    flow: str = "source_to_target",
    num_workers: int = 1,
    batch_size: int | None = None,
) -> Tensor:
    """Edges (2, E) from the points nearer than r of each point to it, likewise."""
    row, col = radius(
        *(x, x, r, batch, batch, max_num_neighbors, num_workers, batch_size), not loop
    )
    return _directed(row, col, flow)


def nearest(
    x: Tensor,
    y: Tensor,
    batch_x: Tensor | None = None,
    batch_y: Tensor | None = None,
) -> Tensor:
    """For each of `x` the row of the nearest of `y` in its cloud, (n,)."""
    x, y = _columns(x), _columns(y)
    rows = torch.full((len(x),), -1, device=x.device)
    for cloud, points in _clouds(y, x, batch_y, batch_x, None):
        rows[points] = nearest_in(y[cloud], x[points], 1)[:, 0] + cloud.start
    if bool((rows < 0).any()):
        raise ValueError("batch_y: expected a point in each cloud of x, got none in one")
    return rows


def grid_cluster(
    pos: Tensor, size: Tensor, start: Tensor | None = None, end: Tensor | None = None
) -> Tensor:
    """The number of the voxel of each point (n,): voxels of `size` (D,) from `start` to `end`."""
    pos = _columns(pos)
    if not len(pos):
        return torch.empty(0, dtype=torch.int64, device=pos.device)
    low = pos.min(0).values if start is None else start
    high = pos.max(0).values if end is None else end
    voxels = ((high - low) / size).long() + 1
    strides = pad(voxels.cumprod(0)[:-1], (1, 0), value=1.0)
    return (((pos - low) / size).long() * strides).sum(1)


def _columns(points: Tensor) -> Tensor:
    return computable(points[:, None] if points.dim() == 1 else points)


def _clouds(
    x: Tensor, y: Tensor, batch_x: Tensor | None, batch_y: Tensor | None, count: int | None
) -> list[tuple[slice, slice]]:
    return list(pairs_of_clouds(sizes_of(batch_x, x, count), sizes_of(batch_y, y, count)))


def _directed(row: Tensor, col: Tensor, flow: str) -> Tensor:
    if flow not in ("source_to_target", "target_to_source"):
        raise ValueError(f"flow: expected source_to_target or target_to_source, got {flow!r}")
    return torch.stack([col, row] if flow == "source_to_target" else [row, col])
