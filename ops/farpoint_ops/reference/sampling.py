"""Farthest point sampling in plain torch, one sample at a time."""

from math import sqrt

import torch
from torch import Tensor

from farpoint_ops.reference.distance import squared_distance


def _sample_cloud(
    points: Tensor, m: int, start: int, radius: float | None = None
) -> tuple[Tensor, Tensor]:
    """Indices (m,) and covering radii (m,) of one cloud (N, D); fewer where a radius ends it."""
    points = points if points.dtype == torch.float64 else points.float()
    finite = points.isfinite().all(-1)
    if not finite[start] and finite.any():
        start = int(finite.nonzero()[0])
    distance = torch.full_like(points[:, 0], torch.inf)
    # Sorts finite rows by distance, then the rest, then what was taken.
    rank = torch.where(finite, distance, -1.0)
    indices, radii = [], []
    for i in range(m):
        row = start if i == 0 else int(rank.argmax())  # the first of equals
        if finite[row]:
            distance = torch.minimum(distance, squared_distance(points, points[row]))
        rank = torch.where(rank >= 0, distance, rank)
        rank[row] = -2.0
        indices.append(row)
        # Not the sqrt of torch, whose vector code is an ulp off here and there.
        radii.append(torch.tensor(sqrt(max(float(rank.max()), 0.0)), dtype=points.dtype))
        if radius is not None and radii[-1] <= torch.tensor(radius, dtype=points.dtype):
            break
    device = points.device
    return torch.tensor(indices, dtype=torch.int32, device=device), torch.stack(radii).to(device)


def furthest_point_sample(
    xyz: Tensor, m: int, start: Tensor | None = None, lengths: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Indices int32 (B, m) and covering radii (B, m) of clouds (B, N, D)."""
    batch, n = xyz.shape[:2]
    starts = [0] * batch if start is None else start.tolist()
    sizes = [n] * batch if lengths is None else lengths.tolist()
    samples = [_sample_cloud(xyz[b, : sizes[b]], m, starts[b]) for b in range(batch)]
    indices, radii = zip(*samples, strict=True)
    return torch.stack(indices), torch.stack(radii)


def furthest_point_sample_with_distances(
    distances: Tensor, m: int, start: Tensor | None = None, lengths: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Indices int32 (B, m) and the largest distances left (B, m) of matrices (B, N, N)."""
    batch, n = distances.shape[:2]
    starts = [0] * batch if start is None else start.tolist()
    sizes = [n] * batch if lengths is None else lengths.tolist()
    indices = torch.empty(batch, m, dtype=torch.int32)
    left = torch.empty(batch, m, dtype=torch.promote_types(distances.dtype, torch.float32))
    for b, size in enumerate(sizes):
        matrix = distances[b, :size, :size].to(left.dtype).nan_to_num(torch.inf, torch.inf)
        lowest, row = torch.full((size,), torch.inf, dtype=left.dtype), starts[b]
        for i in range(m):
            indices[b, i] = row
            lowest = torch.minimum(lowest, matrix[row])
            lowest[indices[b, : i + 1].long()] = 0
            left[b, i] = lowest.max()
            taken = torch.zeros(size).bool().index_fill(0, indices[b, : i + 1].long(), True)
            row = int(lowest.masked_fill(taken, -1).argmax())
    return indices, left


def furthest_point_sample_ragged(
    xyz: Tensor,
    offsets: list[int],
    samples: list[int],
    start: list[int],
    radius: list[float] | None = None,
) -> tuple[Tensor, ...]:
    """Rows of the flat `xyz` and covering radii, cloud after cloud; with radii also offsets."""
    indices, radii, ends = [], [], [0]
    for b, (m, row) in enumerate(zip(samples, start, strict=True)):
        cloud = xyz[offsets[b] : offsets[b + 1]]
        rows, distances = _sample_cloud(cloud, m, row, None if radius is None else radius[b])
        indices.append(rows + offsets[b])
        radii.append(distances)
        ends.append(ends[-1] + len(rows))
    answer = torch.cat(indices), torch.cat(radii)
    return answer if radius is None else (*answer, torch.tensor(ends))


def random_starts(sizes: list[int], generator: torch.Generator) -> list[int]:
    """A row of each cloud: the integer below a float64 from 0 to 1 times the size."""
    drawn = torch.rand(len(sizes), dtype=torch.float64, generator=generator).tolist()
    return [min(int(u * size), size - 1) for u, size in zip(drawn, sizes, strict=True)]
