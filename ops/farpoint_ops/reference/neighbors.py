"""knn, ball_query and nearest_sample by brute force, in plain torch."""

import torch
from torch import Tensor

from farpoint_ops.reference.distance import squared_distance


def _pairs(xyz: Tensor, queries: Tensor) -> Tensor:
    """Squared distances (M, N) of one cloud; infinite where a point or a query is not finite."""
    points, others = (t if t.dtype == torch.float64 else t.float() for t in (xyz, queries))
    squared = squared_distance(points[None], others[:, None])
    usable = points.isfinite().all(-1)[None] & others.isfinite().all(-1)[:, None]
    return torch.where(usable, squared, torch.inf)


def _nearest(xyz: Tensor, queries: Tensor, k: int) -> tuple[Tensor, Tensor]:
    squared = _pairs(xyz, queries)
    order = squared.sort(dim=1, stable=True).indices
    last = ~xyz.isfinite().all(-1)  # behind finite rows at an infinite distance
    order = order.gather(1, last[order].long().sort(dim=1, stable=True).indices)[:, :k]
    return order.int(), squared.gather(1, order)


def _sizes(lengths: Tensor | None, points: Tensor) -> list[int]:
    return [points.size(1)] * len(points) if lengths is None else lengths.tolist()


def knn(
    xyz: Tensor, queries: Tensor, k: int, lengths: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """(B, N, 3), (B, M, 3) -> rows int32 (B, M, k), squared distances (B, M, k)."""
    sizes = _sizes(lengths, xyz)
    found = [_nearest(xyz[b, : sizes[b]], queries[b], k) for b in range(len(xyz))]
    rows, squared = zip(*found, strict=True)
    return torch.stack(rows), torch.stack(squared)


def ball_query(
    xyz: Tensor, centers: Tensor, radius: float, k: int, lengths: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """(B, N, 3), (B, M, 3) -> rows int32 (B, M, k), counts int32 (B, M)."""
    limit = torch.tensor(radius, dtype=torch.float32, device=xyz.device).square()
    idx = torch.zeros(*centers.shape[:2], k, dtype=torch.int32, device=xyz.device)
    counts = idx[..., 0].clone()
    for b, size in enumerate(_sizes(lengths, xyz)):
        inside = _pairs(xyz[b, :size], centers[b]) < limit
        for j, hits in enumerate(inside):
            rows = hits.nonzero()[:k, 0].int()
            counts[b, j] = len(rows)
            idx[b, j] = rows[0] if len(rows) else 0
            idx[b, j, : len(rows)] = rows
    return idx, counts


def nearest_sample(
    xyz: Tensor,
    samples: Tensor,
    lengths: Tensor | None = None,
    sample_lengths: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """(B, N, 3), (B, M, 3) -> samples int32 (B, N), squared distances float32 (B, N)."""
    idx, squared = (t[..., 0].clone() for t in knn(samples, xyz, 1, sample_lengths))
    for b, size in enumerate(_sizes(lengths, xyz)):
        squared[b, size:] = torch.inf
    return idx.where(squared < torch.inf, -1), squared


def count_points(assignment: Tensor, m: int) -> Tensor:
    """(B, N) -> int32 (B, m)."""
    counts = [torch.bincount(row[row >= 0].long(), minlength=m) for row in assignment]
    return torch.stack(counts).int()
