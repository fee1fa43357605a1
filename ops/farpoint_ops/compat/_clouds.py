"""Shared by the drop-ins: clouds of any dimension, searched one at a time.

What reads sizes on the host is an op, so that compiled, exported and scripted code keeps a call.
"""

import math
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import TypeVar

import torch
from torch import Tensor
from torch.nn.functional import pad

from farpoint_ops import neighbors
from farpoint_ops.compat._checks import OptTensor

# Pairs of a point and a query that are looked at together, and neighbors that are found together.
_PAIRS, _FOUND = 1 << 21, 1 << 25

Size = int | torch.SymInt
F = TypeVar("F", bound=Callable[..., Tensor])


def rows_op(shape: Callable[..., tuple[Size, ...]]) -> Callable[[F], F]:
    """Registers ``torch.ops.farpoint.<name>``, whose result is int64 of the `shape` of its input.

    A size that only the values of the input tell is -1.
    """

    def register(function: F) -> F:
        name = f"farpoint::{function.__name__}"
        op = torch.library.custom_op(name, function, mutates_args=())

        def fake(*args: object) -> Tensor:
            free = torch.library.get_ctx().new_dynamic_size
            sizes = [free() if size == -1 else size for size in shape(*args)]
            like = next(a for a in args if isinstance(a, Tensor))
            return like.new_empty(sizes, dtype=torch.int64)

        op.register_fake(fake)
        return function

    return register


@rows_op(lambda *given: (given[1].size(0), given[4]))
def _search(
    points: Tensor,
    queries: Tensor,
    spans: Tensor,
    query_spans: Tensor,
    k: int,
    radius: OptTensor = None,
) -> Tensor:
    """Rows (m, k) of the nearest points, or of the lowest within a radius; -1 where there is none.

    The points and queries of cloud b are the rows from spans[b, 0] to spans[b, 1].
    """
    rows = torch.full((len(queries), k), -1, device=points.device)
    for (low, high), (first, last) in zip(spans.tolist(), query_spans.tolist(), strict=True):
        if low < high and first < last:
            found = _found(points[low:high], queries[first:last], k, radius)
            rows[first:last, : found.size(1)] = found.add(low).masked_fill(found < 0, -1)
    return rows


@torch.library.custom_op("farpoint::knn_ragged", mutates_args=())
def _knn_ragged(
    xyz: Tensor, queries: Tensor, k: int, offsets: Tensor, query_offsets: Tensor
) -> tuple[Tensor, Tensor]:
    """Rows int32 (m, k) of the nearest points and squared distances; -1 where there is none."""
    if k < 1:
        raise ValueError(f"k: expected at least 1, got {k}")
    bounds, asked = offsets.tolist(), query_offsets.tolist()
    for name, ends, points in (("offsets", bounds, xyz), ("query_offsets", asked, queries)):
        if ends[-1] != len(points):  # a compiled graph has not looked at them
            raise ValueError(f"{name}: expected an end at {len(points)}, got {ends[-1]}")
    rows, squared = _ragged_answer(xyz, queries, k, offsets, query_offsets)
    rows.fill_(-1)
    squared.fill_(math.inf)
    for (low, high), (first, last) in zip(pairwise(bounds), pairwise(asked), strict=True):
        found = min(k, high - low)
        if found and first < last:
            idx, near = neighbors.knn(xyz[None, low:high], queries[None, first:last], found)
            rows[first:last, :found], squared[first:last, :found] = idx[0] + low, near[0]
    return rows, squared


@_knn_ragged.register_fake
def _ragged_answer(
    xyz: Tensor, queries: Tensor, k: Size, _: Tensor, __: Tensor
) -> tuple[Tensor, Tensor]:
    dtype = torch.promote_types(torch.promote_types(xyz.dtype, queries.dtype), torch.float32)
    rows = xyz.new_empty((queries.size(0), k), dtype=torch.int32)
    return rows, xyz.new_empty(rows.shape, dtype=dtype)


def _edge_shape(
    x: Tensor,
    y: Tensor,
    k: Size,
    batch_x: OptTensor,
    batch_y: OptTensor,
    radius: OptTensor,
    others: bool,
) -> tuple[Size, ...]:
    if not (batch_x is batch_y is radius is None):
        return 2, -1
    return 2, y.size(0) * torch.sym_min(k, x.size(0) - int(others))  # type: ignore[no-untyped-call]


@rows_op(_edge_shape)
def _edges(
    x: Tensor,
    y: Tensor,
    k: int,
    batch_x: OptTensor,
    batch_y: OptTensor,
    radius: OptTensor,
    others: bool,
) -> Tensor:
    """Rows of `y` and of `x` (2, E): of each of `y` the k nearest, or k within the radius.

    With `others` not the same row, which need not be among the k nearest where points coincide.
    """
    if k < 1:
        raise ValueError(f"k: expected at least 1, got {k}")
    if x.size(1) != y.size(1):
        raise ValueError(f"y: expected {x.size(1)} dimensions, as x, got {y.size(1)}")
    if radius is not None and bool(radius.isnan()):
        raise ValueError("radius: expected a number, got nan")
    parts = [torch.empty(2, 0, dtype=torch.int64, device=x.device)]
    clouds, asked = spans_of("batch_x", batch_x, x), spans_of("batch_y", batch_y, y)
    for cloud, queries in ((clouds[b], asked[b]) for b in asked if b in clouds):
        most = min(k + int(others), cloud.stop - cloud.start)
        for part in in_parts(queries.start, queries.stop, most, _FOUND):
            found = _found(x[cloud], y[part], most, radius)
            columns = found + cloud.start
            rows = torch.arange(part.start, part.stop, device=x.device)[:, None].expand_as(found)
            taken = (found >= 0) & ((columns != rows) | (not others))
            taken &= taken.cumsum(1) <= k
            parts.append(torch.stack([rows[taken], columns[taken]]))
    return torch.cat(parts, dim=1)


@rows_op(lambda x, *_: (x.size(0),))
def _nearest(x: Tensor, y: Tensor, batch_x: OptTensor, batch_y: OptTensor) -> Tensor:
    """For each of `x` the row of the nearest of `y`, (n,)."""
    edges = _edges(y, x, 1, batch_y, batch_x, None, False)
    if edges.size(1) != len(x):
        raise ValueError("batch_y: expected a point in each cloud of x, got none in one")
    return edges[1].clone()


def computable(points: Tensor) -> Tensor:
    """Converts integers to float64, in which their distances are exact."""
    return points if points.is_floating_point() else points.double()


def _found(cloud: Tensor, queries: Tensor, k: int, radius: OptTensor) -> Tensor:
    """Rows (m, at most k): the nearest first, or the lowest nearer than the radius and then -1."""
    dtype = torch.promote_types(computable(cloud).dtype, computable(queries).dtype)
    cloud, queries, k = cloud.to(dtype), queries.to(dtype), min(k, len(cloud))
    if radius is not None and not radius > 0:  # and nothing is nearer
        return torch.empty(len(queries), 0, dtype=torch.int64, device=cloud.device)
    if cloud.size(1) <= 3:  # the ops search in three
        space, asked = (pad(t, (0, 3 - t.size(1)))[None] for t in (cloud, queries))
        if radius is None:
            return neighbors.knn(space, asked, k)[0][0].long()
        idx, counts = neighbors.ball_query(space, asked, float(radius), k)
        places = torch.arange(k, device=idx.device)
        return idx[0].long().masked_fill(places >= counts[0][:, None], -1)
    cloud, queries = cloud.double(), queries.double()
    rows = []
    for part in in_parts(0, len(queries), len(cloud)):
        apart = pair_distances(queries[part], cloud)
        if radius is None:
            rows.append(apart.sort(dim=1, stable=True).indices[:, :k])
        else:
            rows.append(first_of(apart < float(radius), k))
    return torch.cat(rows)


def in_parts(first: int, last: int, points: int, most: int = _PAIRS) -> Iterator[slice]:
    """The rows from first to last, at most so many pairs of one and a point at a time."""
    step = max(1, most // max(1, points))
    return (slice(i, min(i + step, last)) for i in range(first, last if points else first, step))


def pair_distances(queries: Tensor, cloud: Tensor) -> Tensor:
    """Distances (m, n) that sort as exact ones do; of coincident points they are 0."""
    return torch.cdist(queries, cloud, compute_mode="donot_use_mm_for_euclid_dist")


def first_of(inside: Tensor, k: int) -> Tensor:
    """The first k columns of each row (m, n) that are inside, then -1: int64 (m, k)."""
    rank = inside.cumsum(1)
    row, column = (inside & (rank <= k)).nonzero().unbind(1)
    first = torch.full((len(inside), k), -1, device=inside.device)
    first[row, rank[row, column] - 1] = column
    return first


def spans_of(name: str, batch: OptTensor, points: Tensor) -> dict[int, slice]:
    """Rows of each cloud, from the cloud of each point (n,), ascending; None is one cloud."""
    if batch is None:
        return {0: slice(0, len(points))}
    if batch.shape != points.shape[:1]:
        raise ValueError(f"{name}: expected shape ({len(points)},), got {list(batch.shape)}")
    if batch.is_floating_point():
        raise TypeError(f"{name}: expected integers, got {batch.dtype}")
    if bool((batch.diff() < 0).any()):
        raise ValueError(f"{name}: expected clouds one behind the other, got a number that falls")
    if bool((batch[:1] < 0).any()):
        raise ValueError(f"{name}: expected clouds of at least 0, got {int(batch[0])}")
    clouds, counts = torch.unique_consecutive(batch, return_counts=True)
    ends = [0, *counts.cumsum(0).tolist()]
    return dict(zip(clouds.tolist(), map(slice, ends[:-1], ends[1:]), strict=True))


def spans_from(bounds: Tensor) -> Tensor:
    """Bounds (B + 1,) of flat clouds -> where each begins and ends (B, 2)."""
    return torch.stack([bounds[:-1], bounds[1:]], dim=1)
