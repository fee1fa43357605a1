"""knn, ball_query and nearest_sample by brute force, in plain torch."""

import torch
from torch import Tensor
from torch.nn.functional import pad

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
    squared, left = squared.gather(1, order), (0, k - order.size(1))
    nearest = order[:, :1].expand(-1, left[1])
    return torch.cat([order, nearest], 1).int(), pad(squared, left, value=torch.inf)


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


def knn_ragged(
    xyz: Tensor, queries: Tensor, k: int, offsets: list[int], query_offsets: list[int]
) -> tuple[Tensor, Tensor]:
    """(N, 3), (M, 3) -> rows int32 (M, k), squared distances (M, k)."""
    idx = torch.full((len(queries), k), -1, dtype=torch.int32, device=xyz.device)
    squared = torch.full((len(queries), k), torch.inf, device=xyz.device)
    for b, first in enumerate(offsets[:-1]):
        cloud, asked = xyz[first : offsets[b + 1]], slice(*query_offsets[b : b + 2])
        found = min(k, len(cloud))
        rows, distances = _nearest(cloud, queries[asked], found)
        idx[asked, :found], squared[asked, :found] = rows + first, distances
    return idx, squared


def ball_query(
    xyz: Tensor,
    centers: Tensor,
    radius: float,
    k: int,
    lengths: Tensor | None = None,
    min_radius: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """(B, N, 3), (B, M, 3) -> rows int32 (B, M, k), counts int32 (B, M)."""
    dtype = torch.promote_types(xyz.dtype, torch.float32)
    inner, limit = torch.tensor([min_radius, radius], dtype=dtype).square().tolist()
    idx = torch.zeros(*centers.shape[:2], k, dtype=torch.int32, device=xyz.device)
    counts = idx[..., 0].clone()
    for b, size in enumerate(_sizes(lengths, xyz)):
        squared = _pairs(xyz[b, :size], centers[b])
        inside = (squared < limit) & ((squared >= inner) | (squared == 0))
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
    """(B, N, 3), (B, M, 3) -> samples int32 (B, N), squared distances (B, N)."""
    dtype = torch.promote_types(xyz.dtype, torch.float32)
    idx = torch.full(xyz.shape[:2], -1, dtype=torch.int32, device=xyz.device)
    squared = torch.full(xyz.shape[:2], torch.inf, dtype=dtype, device=xyz.device)
    sizes = zip(_sizes(lengths, xyz), _sizes(sample_lengths, samples), strict=True)
    for b, (points, wanted) in enumerate(sizes):
        if points and wanted:
            rows, distances = _nearest(samples[b, :wanted], xyz[b, :points], 1)
            idx[b, :points], squared[b, :points] = rows[:, 0], distances[:, 0]
    return idx.where(squared < torch.inf, -1), squared


def count_points(assignment: Tensor, m: int) -> Tensor:
    """(B, N) -> int32 (B, m)."""
    counts = [torch.bincount(row[row >= 0].long(), minlength=m) for row in assignment]
    return torch.stack(counts).int()
