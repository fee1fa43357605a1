"""The ops in plain torch, which the compiled ops equal bit for bit; no argument is checked."""

from math import sqrt

import torch
from torch import Tensor
from torch.nn.functional import pad


def _sizes(lengths: Tensor | None, points: Tensor) -> list[int]:
    return [points.size(1)] * len(points) if lengths is None else lengths.tolist()


def fma(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """``a * b + c`` of float32 or float64 tensors, rounded once."""
    return _fma_double(a, b, c) if a.dtype == torch.float64 else _fma_float(a, b, c)


def _two_sum(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """The rounded sum and what it lost, exactly (Knuth)."""
    total = a + b
    rest = total - a
    return total, (a - (total - rest)) + (b - rest)


def _two_product(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """The rounded product and what it lost, exactly unless it is huge or tiny (Dekker)."""

    def split(v: Tensor) -> tuple[Tensor, Tensor]:
        high = v * 134217729.0
        high = high - (high - v)
        return high, v - high

    product = a * b
    (ah, al), (bh, bl) = split(a), split(b)
    return product, ((ah * bh - product) + ah * bl + al * bh) + al * bl


def _round_to_odd(a: Tensor, b: Tensor) -> Tensor:
    """a + b, and where that is not exact the neighbor of it whose last bit is 1."""
    total, lost = _two_sum(a, b)
    inexact_even = (lost != 0) & lost.isfinite() & (total.view(torch.int64) % 2 == 0)
    toward = torch.where(lost > 0, torch.inf, -torch.inf).double()
    return torch.where(inexact_even, total.nextafter(toward), total)


def _fma_double(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """Boldo and Melquiond (see below), section 5; the plain formula where a part overflows."""
    high, low = _two_product(a, b)
    first, rest = _two_sum(c.expand_as(low), low)
    top, bottom = _two_sum(high, first)
    exact = top + _round_to_odd(rest, bottom)
    return torch.where(exact.isfinite(), exact, a * b + c)


def _fma_float(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """``a * b + c`` of float32 tensors, rounded once.

    The product of two float32 is exact in float64. The float64 sum with `c` is not, and rounding
    it again to float32 could go the wrong way from a tie that the first rounding made. Rounded to
    odd instead (a float64 that is not exact ends in a 1 bit), it is never such a tie, and the
    second rounding is the only one: Boldo and Melquiond, "Emulation of a FMA and Correctly Rounded
    Sums", IEEE Transactions on Computers 57(4), 2008.
    """
    product, addend = a.double() * b.double(), c.double()
    return _round_to_odd(product, addend).float()


def squared_distance(points: Tensor, point: Tensor) -> Tensor:
    """Squared distances of points (..., D) to others that broadcast with them.

    Bit for bit what every kernel computes, in float32 or float64.
    """
    apart = points - point
    total = torch.zeros_like(apart[..., 0])
    for d in apart.unbind(-1):
        total = fma(d, d, total)
    return total


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
    batch = len(xyz)
    starts = [0] * batch if start is None else start.tolist()
    sizes = _sizes(lengths, xyz)
    samples = [_sample_cloud(xyz[b, : sizes[b]], m, starts[b]) for b in range(batch)]
    indices, radii = zip(*samples, strict=True)
    return torch.stack(indices), torch.stack(radii)


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


def knn(
    xyz: Tensor, queries: Tensor, k: int, lengths: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """(B, N, 3), (B, M, 3) -> rows int32 (B, M, k), squared distances (B, M, k)."""
    sizes = _sizes(lengths, xyz)
    found = [_nearest(xyz[b, : sizes[b]], queries[b], k) for b in range(len(xyz))]
    rows, squared = zip(*found, strict=True)
    return torch.stack(rows), torch.stack(squared)


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


def gather_points(features: Tensor, idx: Tensor) -> Tensor:
    """(B, C, N), (B, M) -> (B, C, M)."""
    index = idx.long().unsqueeze(1).expand(-1, features.size(1), -1)
    return features.gather(2, index)


def scatter_points(values: Tensor, idx: Tensor, n: int) -> Tensor:
    """(B, C, M), (B, M) -> (B, C, n), repeated indices summed."""
    index = idx.long().unsqueeze(1).expand_as(values)
    return values.new_zeros(*values.shape[:2], n).scatter_add(2, index, values)


def group_points(features: Tensor, idx: Tensor) -> Tensor:
    """(B, C, N), (B, M, K) -> (B, C, M, K)."""
    gathered = gather_points(features, idx.flatten(1))
    return gathered.view(*features.shape[:2], *idx.shape[1:])


def interpolate(features: Tensor, idx: Tensor, weight: Tensor) -> Tensor:
    """(B, C, M), (B, N, K), (B, N, K) -> (B, C, N)."""
    return (group_points(features, idx) * weight.unsqueeze(1)).sum(-1)


def interpolate_scatter(values: Tensor, idx: Tensor, weight: Tensor, m: int) -> Tensor:
    """(B, C, N), (B, N, K), (B, N, K) -> (B, C, m)."""
    products = values.unsqueeze(-1) * weight.unsqueeze(1)
    return scatter_points(products.flatten(2), idx.flatten(1), m)


def interpolate_dot(values: Tensor, features: Tensor, idx: Tensor) -> Tensor:
    """(B, C, N), (B, C, M), (B, N, K) -> (B, N, K)."""
    return (values.unsqueeze(-1) * group_points(features, idx)).sum(1)
