"""Shared by the drop-ins: clouds of any dimension, searched one at a time."""

import math
from collections.abc import Callable, Iterator
from itertools import accumulate

import torch
from torch import Tensor
from torch.nn.functional import normalize, pad

from farpoint_ops import neighbors
from farpoint_ops._sampling_arguments import Start, random_starts

# Pairs of a point and a query that are looked at together.
_PAIRS = 1 << 22


def computable(points: Tensor) -> Tensor:
    """Converts integers to float64, in which their distances are exact."""
    return points if points.is_floating_point() else points.double()


def farthest_in_any_space(
    points: Tensor, offsets: Tensor, counts: Tensor, *, start: Start
) -> Tensor:
    """`farthest_point_sample_ragged` for more than 64 dimensions, one pass per sample."""
    sizes, picked = offsets.diff(), []
    firsts = random_starts(sizes, None) if start == "random" else torch.zeros_like(sizes)
    for b, cloud in enumerate(torch.split(points, sizes.tolist())):
        row, distance = int(firsts[b]), torch.full_like(cloud[:, 0], math.inf)
        for _ in range(int(counts[b])):
            picked.append(row + int(offsets[b]))
            distance = distance.minimum((cloud - cloud[row]).square().sum(1))
            distance[row] = -1
            row = int(distance.argmax())
    return torch.tensor(picked, device=points.device)


def absolute_pairs(cloud: Tensor, queries: Tensor) -> Tensor:
    """(n, D), (m, D) -> sums of absolute differences (m, n)."""
    return (queries[:, None] - cloud).abs().sum(-1)


def squared_pairs(cloud: Tensor, queries: Tensor) -> Tensor:
    """(n, D), (m, D) -> squared distances (m, n)."""
    return (queries[:, None] - cloud).square().sum(-1)


def cosine_pairs(cloud: Tensor, queries: Tensor) -> Tensor:
    """(n, D), (m, D) -> one minus the cosine of the angle between them (m, n)."""
    return 1 - normalize(queries, dim=1) @ normalize(cloud, dim=1).T


def nearest_in(
    cloud: Tensor,
    queries: Tensor,
    k: int,
    pairs: Callable[[Tensor, Tensor], Tensor] = squared_pairs,
) -> Tensor:
    """Rows int64 (m, k) of the k <= n nearest points, nearest first, the lowest row on a tie."""
    cloud, queries = cloud.detach(), queries.detach()
    if pairs is squared_pairs and cloud.size(1) <= 3:
        return neighbors.knn(_in_space(cloud), _in_space(queries), k)[0][0].long()
    rows = [
        pairs(cloud, part).sort(dim=1, stable=True).indices[:, :k]
        for part in in_parts(queries, len(cloud))
    ]
    return torch.cat(rows)


def within(cloud: Tensor, queries: Tensor, radius: float, k: int) -> tuple[Tensor, Tensor]:
    """Lowest k rows nearer than the radius, int64 (m, k), and which places are taken (m, k).

    The first row found fills the places left, row 0 where there is none.
    """
    cloud, queries = cloud.detach(), queries.detach()
    if cloud.size(1) <= 3:
        idx, counts = neighbors.ball_query(_in_space(cloud), _in_space(queries), radius, k)
        return idx[0].long(), torch.arange(k, device=idx.device) < counts[0][:, None]
    parts = [
        first_of(squared_pairs(cloud, part) < radius * radius, k)
        for part in in_parts(queries, len(cloud))
    ]
    rows, taken = (torch.cat(values) for values in zip(*parts, strict=True))
    return rows, taken


def first_of(inside: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The first k columns of each row (m, n) that are inside, and a mask of valid ones."""
    order = (~inside).long().sort(dim=1, stable=True).indices[:, :k]
    taken = pad(inside.gather(1, order), (0, k - order.size(1)))
    order = pad(order, (0, k - order.size(1)))
    return order.where(taken, order[:, :1].where(taken[:, :1], 0)), taken


def in_parts(queries: Tensor, points: int) -> tuple[Tensor, ...]:
    """Queries of which each makes so many pairs, some millions of pairs at a time."""
    return torch.split(queries, max(1, _PAIRS // max(1, points)))


def sizes_of(batch: Tensor | None, points: Tensor, clouds: int | None) -> list[int]:
    """Points of each cloud, from the cloud of each point (n,), ascending; None is one cloud."""
    if batch is None:
        return [len(points)]
    if batch.dim() != 1 or len(batch) != len(points):
        raise ValueError(f"batch: expected shape ({len(points)},), got {list(batch.shape)}")
    if bool((batch.diff() < 0).any()):
        raise ValueError("batch: expected the clouds one behind the other, got one that falls")
    sizes: list[int] = batch.bincount(minlength=clouds or 0).tolist()
    return sizes


def pairs_of_clouds(sizes: list[int], others: list[int]) -> Iterator[tuple[slice, slice]]:
    """The rows of each cloud in two batches, but for clouds that are empty in either."""
    ends, other_ends = (list(accumulate(s, initial=0)) for s in (sizes, others))
    for b, (size, other) in enumerate(zip(sizes, others, strict=False)):
        if size and other:
            yield slice(ends[b], ends[b + 1]), slice(other_ends[b], other_ends[b + 1])


def _in_space(points: Tensor) -> Tensor:
    """(n, D) -> (1, n, 3), in which the ops search."""
    return pad(points, (0, 3 - points.size(1)))[None]
