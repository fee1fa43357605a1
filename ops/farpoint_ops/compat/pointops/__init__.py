"""Drop-in for the ``pointops`` with offsets of Point Transformer and Pointcept: (n, 3), ends (B,).

Change ``import pointops`` or ``from lib.pointops.functions import pointops`` to
``from farpoint_ops.compat import pointops``. The batched library of the same name is
`farpoint_ops.compat.pointops.batched`.

The two releases share this module. Where one name has two orders of arguments,

* ``grouping(input, idx)`` is Point Transformer's, ``grouping(idx, feat, xyz, ...)`` Pointcept's;
* ``KNNQuery.apply`` takes Pointcept's order, which is that of ``knn_query``; Point Transformer's is
  that of ``knnquery``.

Indices are int32 rows of the flat batch, -1 where a cloud has too few points, whose features are
zero. Indices and distances carry no gradient.
"""

import math
from importlib import import_module
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn.functional import pad

from farpoint_ops._arguments import check_tensor
from farpoint_ops.compat._batched import Applied
from farpoint_ops.compat._clouds import in_parts, pairs_of_clouds, squared_pairs
from farpoint_ops.fps import farthest_point_sample_ragged
from farpoint_ops.gather import interpolate

# Distance of a neighbor that does not exist, as in the originals.
_MISSING = 1e5
# A squared distance up to which a point counts whatever the inner radius is.
_COINCIDENT = 1e-5

Found = tuple[Tensor, Tensor]


def offset2batch(offset: Tensor) -> Tensor:
    """Ends (B,) -> the cloud of each point, int64 (n,)."""
    counts = offset.diff(prepend=offset.new_zeros(1))
    return torch.arange(len(offset), device=offset.device).repeat_interleave(counts)


def batch2offset(batch: Tensor) -> Tensor:
    """The cloud of each point (n,) -> ends, int32 (B,)."""
    return batch.bincount().cumsum(0).int()


def farthest_point_sampling(xyz: Tensor, offset: Tensor, new_offset: Tensor) -> Tensor:
    """(n, 3), (B,), (B,) -> the rows of the samples of each cloud, (new_offset[-1],)."""
    samples = _bounds("new_offset", new_offset).diff()
    return farthest_point_sample_ragged(xyz, _bounds("offset", offset), samples)


def knn_query(
    nsample: int,
    xyz: Tensor,
    offset: Tensor,
    new_xyz: Tensor | None = None,
    new_offset: Tensor | None = None,
) -> Found:
    """(n, 3), (B,), (m, 3), (B,) -> rows and distances of the nearest points, (m, nsample).

    Nearest first, and only from the cloud of the query; the batch queries itself where `new_xyz`
    is None.
    """
    new_xyz, bounds, new_bounds = _queries(xyz, offset, new_xyz, new_offset)
    squared, idx = torch.ops.farpoint.knn_ragged(
        xyz.detach(), new_xyz.detach(), nsample, bounds, new_bounds
    )
    return idx, squared.sqrt().masked_fill(idx < 0, _MISSING)


def knnquery(
    nsample: int, xyz: Tensor, new_xyz: Tensor | None, offset: Tensor, new_offset: Tensor
) -> Found:
    """`knn_query` in Point Transformer's order of arguments, the queries before the offsets."""
    return knn_query(nsample, xyz, offset, new_xyz, new_offset)


def ball_query(
    nsample: int,
    max_radius: float,
    min_radius: float,
    xyz: Tensor,
    offset: Tensor,
    new_xyz: Tensor | None = None,
    new_offset: Tensor | None = None,
) -> Found:
    """(n, 3), (B,), (m, 3), (B,) -> rows and distances of points in the shell, (m, nsample).

    A point is in it at a distance of at least `min_radius` and less than `max_radius`, or where it
    coincides with the query. Nearest first; where there are more than nsample, every so many of
    them, evenly; where there are fewer, -1 fills the places left.
    """
    radii = min_radius, max_radius
    return _in_shell(nsample, radii, False, xyz, *_queries(xyz, offset, new_xyz, new_offset))


def random_ball_query(
    nsample: int,
    max_radius: float,
    min_radius: float,
    xyz: Tensor,
    offset: Tensor,
    new_xyz: Tensor | None = None,
    new_offset: Tensor | None = None,
) -> Found:
    """Like `ball_query`, with points of the shell in random order."""
    radii = min_radius, max_radius
    return _in_shell(nsample, radii, True, xyz, *_queries(xyz, offset, new_xyz, new_offset))


def _in_shell(
    nsample: int,
    radii: tuple[float, float],
    randomly: bool,
    xyz: Tensor,
    new_xyz: Tensor,
    bounds: Tensor,
    new_bounds: Tensor,
) -> Found:
    """Every pair of a point and a query of a cloud is looked at, some millions at a time."""
    low, high = radii
    if low >= high:
        raise ValueError(f"min_radius: expected less than max_radius = {high}, got {low}")
    places = torch.arange(nsample, device=xyz.device)
    idx = torch.full((len(new_xyz), nsample), -1, dtype=torch.int32, device=xyz.device)
    distance = torch.full(idx.shape, _MISSING, device=xyz.device)
    clouds = pairs_of_clouds(bounds.diff().tolist(), new_bounds.diff().tolist())
    for cloud, queries in clouds:
        points = xyz[cloud].detach().float()
        rows = torch.arange(queries.start, queries.stop, device=xyz.device)
        for part in in_parts(rows, len(points)):
            squared = squared_pairs(points, new_xyz[part].detach().float())
            inside = (squared <= _COINCIDENT) | ((squared >= low * low) & (squared < high * high))
            rank = torch.rand_like(squared) if randomly else squared
            order = rank.masked_fill(~inside, math.inf).argsort(dim=1, stable=True)
            count = inside.sum(1, keepdim=True)
            spread = torch.where(count > nsample, places * count // nsample, places)
            found, missing = order.gather(1, spread.clamp(max=len(points) - 1)), places >= count
            idx[part] = (found + cloud.start).masked_fill(missing, -1).int()
            distance[part] = squared.gather(1, found).sqrt().masked_fill(missing, _MISSING)
    return idx, distance


def grouping2(features: Tensor, idx: Tensor) -> Tensor:
    """(n, c), (m, nsample) -> (m, nsample, c)."""
    if features.dim() != 2:
        raise ValueError(f"features: expected (n, c), got shape {tuple(features.shape)}")
    rows = features.index_select(0, idx.clamp(min=0).flatten())
    return rows.view(*idx.shape, features.size(1)).masked_fill((idx < 0).unsqueeze(-1), 0)


def grouping(
    idx: Tensor,
    feat: Tensor,
    xyz: Tensor | None = None,
    new_xyz: Tensor | None = None,
    with_xyz: bool = False,
) -> Tensor:
    """(m, nsample), (n, c), (n, 3), (m, 3) -> (m, nsample, c), or 3 + c with coordinates.

    Coordinates are relative to the center. Of two arguments the features come first, as in
    `grouping2`.
    """
    if xyz is None:
        features, rows = idx, feat
        return grouping2(features, rows)
    grouped = grouping2(feat, idx)
    if not with_xyz:
        return grouped
    relative = grouping2(xyz, idx) - (xyz if new_xyz is None else new_xyz).unsqueeze(1)
    relative = relative.masked_fill((idx < 0).unsqueeze(-1), 0)
    return torch.cat([relative, grouped], -1)


def knn_query_and_group(
    feat: Tensor,
    xyz: Tensor,
    offset: Tensor | None = None,
    new_xyz: Tensor | None = None,
    new_offset: Tensor | None = None,
    idx: Tensor | None = None,
    nsample: int | None = None,
    with_xyz: bool = False,
) -> tuple[Tensor, Tensor]:
    """(n, c), (n, 3) -> features of the nearest points (m, nsample, c or 3 + c), and their rows."""
    if idx is None:
        if nsample is None or offset is None:
            raise ValueError("nsample, offset: expected both where idx is None")
        idx, _ = knn_query(nsample, xyz, offset, new_xyz, new_offset)
    return grouping(idx, feat, xyz, new_xyz, with_xyz), idx


def ball_query_and_group(
    feat: Tensor,
    xyz: Tensor,
    offset: Tensor | None = None,
    new_xyz: Tensor | None = None,
    new_offset: Tensor | None = None,
    idx: Tensor | None = None,
    max_radio: float | None = None,
    min_radio: float = 0,
    nsample: int | None = None,
    with_xyz: bool = False,
) -> tuple[Tensor, Tensor]:
    """Like `knn_query_and_group`, for the points of `ball_query`."""
    if idx is None:
        if nsample is None or offset is None or max_radio is None:
            raise ValueError("nsample, offset, max_radio: expected all where idx is None")
        idx, _ = ball_query(nsample, max_radio, min_radio, xyz, offset, new_xyz, new_offset)
    return grouping(idx, feat, xyz, new_xyz, with_xyz), idx


def query_and_group(
    nsample: int,
    xyz: Tensor,
    new_xyz: Tensor | None,
    feat: Tensor,
    idx: Tensor | None,
    offset: Tensor,
    new_offset: Tensor,
    dilation: int = 0,
    with_feat: bool = True,
    with_xyz: bool = True,
) -> tuple[Tensor, Tensor] | Tensor:
    """Features of every (dilation + 1)-th nearest point (m, nsample, 3 + c), and their rows.

    Without `with_feat` only the rows, without `with_xyz` only the features of (m, nsample, c). A
    cloud with fewer points than that takes is dilated as far as it goes.
    """
    if idx is None:
        reach = 1 + (nsample - 1) * (dilation + 1)
        idx, _ = knn_query(reach, xyz, offset, new_xyz, new_offset)
        if dilation:
            _, bounds, new_bounds = _queries(xyz, offset, new_xyz, new_offset)
            steps = (bounds.diff() - 1).double() / max(nsample - 1, 1)
            steps = steps.clamp(max=dilation + 1).repeat_interleave(new_bounds.diff())
            idx = idx.gather(1, (steps[:, None] * torch.arange(nsample, device=idx.device)).long())
    return (grouping(idx, feat, xyz, new_xyz, with_xyz), idx) if with_feat else idx


def queryandgroup(
    nsample: int,
    xyz: Tensor,
    new_xyz: Tensor | None,
    feat: Tensor,
    idx: Tensor | None,
    offset: Tensor,
    new_offset: Tensor,
    use_xyz: bool = True,
    return_indx: bool = False,
) -> tuple[Tensor, Tensor] | Tensor:
    """Features of the nearest points (m, nsample, 3 + c), and their rows where asked for."""
    grouped, idx = knn_query_and_group(
        *(feat, xyz, offset, new_xyz, new_offset, idx, nsample, use_xyz)
    )
    return (grouped, idx) if return_indx else grouped


def interpolation2(
    xyz: Tensor, new_xyz: Tensor, feat: Tensor, offset: Tensor, new_offset: Tensor, k: int = 3
) -> Tensor:
    """(m, 3), (n, 3), (m, c), (B,), (B,) -> (n, c): means of the k nearest by inverse distance."""
    idx, distance = knn_query(k, xyz, offset, new_xyz, new_offset)
    weight = (distance + 1e-8).reciprocal().masked_fill(idx < 0, 0)
    weight = weight / weight.sum(1, keepdim=True)
    mean = interpolate(feat.t()[None], idx.clamp(min=0)[None], weight[None])
    return mean[0].t().contiguous()


def subtraction(input1: Tensor, input2: Tensor, idx: Tensor) -> Tensor:
    """(n, c), (n, c), (n, nsample) -> (n, nsample, c): each minus its neighbors."""
    return input1.unsqueeze(1) - grouping2(input2, idx)


def aggregation(input: Tensor, position: Tensor, weight: Tensor, idx: Tensor) -> Tensor:  # noqa: A002
    """(n, c), (n, nsample, c), (n, nsample, w), (n, nsample) -> (n, c).

    The sum over the neighbors of their features plus position, times the weight of channel modulo
    w.
    """
    values = (grouping2(input, idx) + position).view(*idx.shape, -1, weight.size(-1))
    return (values * weight.unsqueeze(-2)).sum(1).flatten(1)


def attention_relation_step(
    query: Tensor, key: Tensor, weight: Tensor, index_target: Tensor, index_refer: Tensor
) -> Tensor:
    """(n, g, c), (n, g, c), (c,), (m,), (m,) -> (m, g): weighted products of queries and keys."""
    targets, refers = query.index_select(0, index_target), key.index_select(0, index_refer)
    return (targets * refers * weight).sum(-1)


def attention_fusion_step(
    weight: Tensor, value: Tensor, index_target: Tensor, index_refer: Tensor
) -> Tensor:
    """(m, g), (n, g, c), (m,), (m,) -> (n, g, c): weighted values, summed at their targets."""
    weighted = weight.unsqueeze(-1) * value.index_select(0, index_refer)
    return torch.zeros_like(value).index_add(0, index_target, weighted)


def _bounds(name: str, offset: Tensor, points: Tensor | None = None) -> Tensor:
    """0 and the ends, int64 (B + 1,); in a compiled graph the op checks where they end."""
    check_tensor(name, offset)
    if offset.dtype not in (torch.int32, torch.int64):
        raise TypeError(f"{name}: expected int32 or int64, got {offset.dtype}")
    if points is not None and not torch.compiler.is_compiling():
        ends = [0, *offset.tolist()]
        if ends[-1] != len(points) or ends != sorted(ends):
            raise ValueError(
                f"{name}: expected offsets that rise to {len(points)}, the number of points, "
                f"got {ends[1:]}"
            )
    return pad(offset.long(), (1, 0))


def _queries(
    xyz: Tensor, offset: Tensor, new_xyz: Tensor | None, new_offset: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, the batch itself where there are none, and the bounds of points and queries."""
    if new_xyz is None or new_offset is None:
        new_xyz, new_offset = xyz, offset
    bounds, queries = _bounds("offset", offset, xyz), _bounds("new_offset", new_offset, new_xyz)
    if len(queries) != len(bounds):
        raise ValueError(f"new_offset: expected {len(offset)} clouds, got {len(new_offset)}")
    return new_xyz, bounds, queries


furthestsampling = farthest_point_sampling
interpolation = interpolation2

FarthestPointSampling = FurthestSampling = Applied(farthest_point_sampling)
Grouping = Applied(grouping2)
Interpolation = Applied(interpolation2)
BallQuery = Applied(ball_query)
RandomBallQuery = Applied(random_ball_query)
KNNQuery = Applied(knn_query)
Subtraction = Applied(subtraction)
Aggregation = Applied(aggregation)
AttentionRelationStep = Applied(attention_relation_step)
AttentionFusionStep = Applied(attention_fusion_step)

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        batched = import_module(f"{__name__}.batched")
        where = f": it is in {__name__}.batched" if hasattr(batched, name) else ""
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{where}")
