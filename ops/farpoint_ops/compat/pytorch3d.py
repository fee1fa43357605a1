"""Drop-in for the point cloud ops of ``pytorch3d.ops``.

Change ``from pytorch3d.ops import …`` to ``from farpoint_ops.compat.pytorch3d import …``. Points
are (N, P, D), of any D (sampling up to 64); indices are int64. Distances are squared, or sums of
absolute differences with ``norm=1``, and have a gradient for both inputs. Neighbors are always
nearest first: `return_sorted` is ignored.
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from farpoint_ops.compat._clouds import absolute_pairs, nearest_in, squared_pairs, within
from farpoint_ops.fps import farthest_point_sample_ragged


class _KNN(NamedTuple):
    dists: Tensor
    idx: Tensor
    knn: Tensor | None


def sample_farthest_points(
    points: Tensor,
    lengths: Tensor | None = None,
    K: int | list[int] | Tensor = 50,  # noqa: N803  as it is there
    random_start_point: bool = False,
) -> tuple[Tensor, Tensor]:
    """Samples (N, K, D) and their rows (N, K), K of each cloud or all of a smaller one.

    Places left are 0 and row -1.
    """
    sizes = _sizes(lengths, points)
    wanted = [K] * len(sizes) if isinstance(K, int) else [int(k) for k in K]
    if len(wanted) != len(sizes):
        raise ValueError(f"K: expected {len(sizes)} values, one per cloud, got {len(wanted)}")
    counts = [min(k, size) for k, size in zip(wanted, sizes, strict=True)]
    idx = points.new_full((len(sizes), max(wanted, default=0)), -1, dtype=torch.int64)
    taken = [b for b, count in enumerate(counts) if count > 0]
    if taken:
        flat = torch.cat([points.detach()[b, : sizes[b]] for b in taken])
        ends = torch.tensor([0, *(sizes[b] for b in taken)]).cumsum(0)
        rows = farthest_point_sample_ragged(
            *(flat, ends, [counts[b] for b in taken]), start="random" if random_start_point else 0
        )
        parts = torch.split(rows.long(), [counts[b] for b in taken])
        for place, (b, part) in enumerate(zip(taken, parts, strict=True)):
            idx[b, : counts[b]] = part - ends[place]
    return _gathered(points, idx), idx


def knn_points(
    p1: Tensor,
    p2: Tensor,
    lengths1: Tensor | None = None,
    lengths2: Tensor | None = None,
    norm: int = 2,
    K: int = 1,  # noqa: N803
    version: int = -1,  # noqa: ARG001
    return_nn: bool = False,
    return_sorted: bool = True,  # noqa: ARG001
) -> _KNN:
    """The K points of `p2` nearest to each of `p1`: distances, rows and points, (N, P1, K, ...).

    0 in places beyond the points of a cloud.
    """
    if norm not in (1, 2):
        raise ValueError("Support for 1 or 2 norm.")
    pairs = squared_pairs if norm == 2 else absolute_pairs
    idx = p1.new_full((*p1.shape[:2], K), -1, dtype=torch.int64)
    for b, (size, other) in enumerate(zip(_sizes(lengths1, p1), _sizes(lengths2, p2), strict=True)):
        count = min(K, other)
        if size and count:
            idx[b, :size, :count] = nearest_in(p2[b, :other], p1[b, :size], count, pairs)
    return _found(p1, p2, idx, return_nn, idx.clamp(min=0), norm)


def ball_query(
    p1: Tensor,
    p2: Tensor,
    lengths1: Tensor | None = None,
    lengths2: Tensor | None = None,
    K: int = 500,  # noqa: N803
    radius: float = 0.2,
    return_nn: bool = True,
    skip_points_outside_cube: bool = False,  # noqa: ARG001  which changes no answer
) -> _KNN:
    """The lowest K rows of `p2` nearer than `radius` to each of `p1`, likewise.

    Places left are row -1, at a distance of 0.
    """
    idx = p1.new_full((*p1.shape[:2], K), -1, dtype=torch.int64)
    for b, (size, other) in enumerate(zip(_sizes(lengths1, p1), _sizes(lengths2, p2), strict=True)):
        if size and other:
            rows, taken = within(p2[b, :other], p1[b, :size], radius, K)
            idx[b, :size] = rows.where(taken, -1)
    return _found(p1, p2, idx, return_nn, idx)


def knn_gather(x: Tensor, idx: Tensor, lengths: Tensor | None = None) -> Tensor:
    """(N, M, U), (N, L, K) -> (N, L, K, U); 0 for neighbors beyond `lengths`."""
    gathered = _gathered(x, idx)
    if lengths is None:
        return gathered
    beyond = torch.arange(idx.size(2), device=x.device) >= lengths[:, None]
    return gathered.masked_fill(beyond[:, None, :, None], 0)


def _sizes(lengths: Tensor | None, points: Tensor) -> list[int]:
    if lengths is None:
        return [points.size(1)] * len(points)
    sizes: list[int] = lengths.tolist()
    if len(sizes) != len(points) or not all(0 <= n <= points.size(1) for n in sizes):
        raise ValueError(
            f"lengths: expected {len(points)} values of 0 to {points.size(1)}, got {sizes}"
        )
    return sizes


def _gathered(points: Tensor, idx: Tensor) -> Tensor:
    """(N, P, D), (N, ...) -> (N, ..., D); 0 where the row is -1."""
    if points.size(1) == 0:
        points = pad(points, (0, 0, 0, 1))
    flat = idx.clamp(min=0).flatten(1)[..., None].expand(-1, -1, points.size(2))
    picked = points.gather(1, flat).view(*idx.shape, points.size(2))
    return picked.masked_fill((idx < 0)[..., None], 0)


def _found(
    p1: Tensor, p2: Tensor, idx: Tensor, return_nn: bool, reported: Tensor, norm: int = 2
) -> _KNN:
    near = _gathered(p2, idx)
    apart = near - p1[:, :, None]
    distances = (apart.square() if norm == 2 else apart.abs()).sum(-1).masked_fill(idx < 0, 0)
    return _KNN(distances, reported, near if return_nn else None)
