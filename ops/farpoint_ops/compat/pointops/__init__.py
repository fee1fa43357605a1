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

import torch
from torch import Tensor
from torch.nn.functional import pad

from farpoint_ops.compat._batched import Applied
from farpoint_ops.compat._checks import OptTensor, check_rows, checked
from farpoint_ops.compat._clouds import in_parts, pair_distances, rows_op, spans_from, spans_of
from farpoint_ops.fps import farthest_point_sample_ragged
from farpoint_ops.gather import interpolate

# Distance of a neighbor that does not exist, as in the originals.
_MISSING = 1e5
# A squared distance up to which a point counts whatever the inner radius is.
_COINCIDENT = 1e-5

Found = tuple[Tensor, Tensor]


@checked("offset B int")
def offset2batch(offset: Tensor) -> Tensor:
    """Ends (B,) -> the cloud of each point, int64 (n,)."""
    counts = _bounds("offset", offset).diff()
    return torch.arange(offset.size(0), device=offset.device).repeat_interleave(counts)


@checked("batch n int")
def batch2offset(batch: Tensor) -> Tensor:
    """The cloud of each point (n,) -> ends, int32 (B,)."""
    if not torch.compiler.is_compiling():
        spans_of("batch", batch, batch)
    return batch.bincount().cumsum(0).int()


@checked("xyz n 3, offset B int, new_offset B int", num_samples="new_offset", offsets="offset")
def farthest_point_sampling(xyz: Tensor, offset: Tensor, new_offset: Tensor) -> Tensor:
    """(n, 3), (B,), (B,) -> the rows of the samples of each cloud, (new_offset[-1],)."""
    counts = _bounds("new_offset", new_offset).diff()
    rows: Tensor = farthest_point_sample_ragged(xyz, _bounds("offset", offset, xyz), counts)
    return rows


@checked(
    "xyz n 3, offset B int, new_xyz m 3, new_offset B int",
    **{"k": "nsample", "queries": "new_xyz", "offsets": "offset", "query_offsets": "new_offset"},
)
def knn_query(
    nsample: int,
    xyz: Tensor,
    offset: Tensor,
    new_xyz: OptTensor = None,
    new_offset: OptTensor = None,
) -> Found:
    """(n, 3), (B,), (m, 3), (B,) -> rows and distances of the nearest points, (m, nsample).

    Nearest first, and only from the cloud of the query; the batch queries itself where `new_xyz`
    is None.
    """
    new_xyz, bounds, new_bounds = _queries(xyz, offset, new_xyz, new_offset)
    idx, squared = torch.ops.farpoint.knn_ragged(
        xyz.detach(), new_xyz.detach(), nsample, bounds, new_bounds
    )
    return idx, squared.sqrt().masked_fill(idx < 0, _MISSING)


def knnquery(
    nsample: int, xyz: Tensor, new_xyz: OptTensor, offset: Tensor, new_offset: OptTensor
) -> Found:
    """`knn_query` in Point Transformer's order of arguments, the queries before the offsets."""
    return knn_query(nsample, xyz, offset, new_xyz, new_offset)


@checked("xyz n 3, offset B int, new_xyz m 3, new_offset B int")
def ball_query(
    nsample: int,
    max_radius: float,
    min_radius: float,
    xyz: Tensor,
    offset: Tensor,
    new_xyz: OptTensor = None,
    new_offset: OptTensor = None,
) -> Found:
    """(n, 3), (B,), (m, 3), (B,) -> rows and distances of points in the shell, (m, nsample).

    A point is in it at a distance of at least `min_radius` and less than `max_radius`, or where it
    coincides with the query. Nearest first; where there are more than nsample, every so many of
    them, evenly; where there are fewer, -1 fills the places left.
    """
    if nsample < 1:
        raise ValueError(f"nsample: expected at least 1, got {nsample}")
    if not min_radius < max_radius:
        raise ValueError(
            f"min_radius: expected less than max_radius = {max_radius}, got {min_radius}"
        )
    new_xyz, bounds, new_bounds = _queries(xyz, offset, new_xyz, new_offset)
    radii = torch.full([2], max_radius, dtype=torch.float64, device="cpu")
    radii[0] = min_radius
    spans, asked = spans_from(bounds), spans_from(new_bounds)
    idx = torch.ops.farpoint._shell(xyz.detach(), new_xyz.detach(), spans, asked, nsample, radii)
    apart = (xyz.detach()[idx.clamp(min=0)] - new_xyz.detach()[:, None]).norm(dim=-1)
    return idx.int(), apart.masked_fill(idx < 0, _MISSING)


@rows_op(lambda *given: (given[1].size(0), given[4]))
def _shell(
    xyz: Tensor, new_xyz: Tensor, spans: Tensor, asked: Tensor, nsample: int, radii: Tensor
) -> Tensor:
    """Rows (m, nsample) of points in the shell; every pair of a cloud is looked at."""
    low, high = radii.tolist()
    places = torch.arange(nsample, device=xyz.device)
    idx = torch.full((len(new_xyz), nsample), -1, device=xyz.device)
    for (begin, end), (first, last) in zip(spans.tolist(), asked.tolist(), strict=True):
        for part in in_parts(first, last, end - begin):
            apart = pair_distances(new_xyz[part].double(), xyz[begin:end].double())
            inside = (apart.square() <= _COINCIDENT) | ((apart >= low) & (apart < high))
            order = apart.masked_fill(~inside, math.inf).argsort(dim=1, stable=True)
            count = inside.sum(1, keepdim=True)
            spread = torch.where(count > nsample, places * count // nsample, places)
            found = order.gather(1, spread.clamp(max=end - begin - 1)) + begin
            idx[part] = found.masked_fill(places >= count, -1)
    return idx


@checked("features n c, idx m nsample int")
def grouping2(features: Tensor, idx: Tensor) -> Tensor:
    """(n, c), (m, nsample) -> (m, nsample, c)."""
    check_rows("idx", idx, features.size(0), missing=-1)
    rows = features.index_select(0, idx.clamp(min=0).flatten())
    return rows.view(*idx.shape, features.size(1)).masked_fill((idx < 0).unsqueeze(-1), 0)


@checked("xyz n 3, new_xyz m 3", features="feat")
def grouping(
    idx: Tensor,
    feat: Tensor,
    xyz: OptTensor = None,
    new_xyz: OptTensor = None,
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
    centers = xyz if new_xyz is None else new_xyz
    if centers.size(0) != idx.size(0):
        raise ValueError(f"idx: expected {centers.size(0)} groups, as centers, got {idx.size(0)}")
    relative = grouping2(xyz, idx) - centers.unsqueeze(1)
    relative = relative.masked_fill((idx < 0).unsqueeze(-1), 0)
    return torch.cat([relative, grouped], -1)


@checked("feat n c, xyz n 3, new_xyz m 3, idx m nsample int")
def knn_query_and_group(
    feat: Tensor,
    xyz: Tensor,
    offset: OptTensor = None,
    new_xyz: OptTensor = None,
    new_offset: OptTensor = None,
    idx: OptTensor = None,
    nsample: int | None = None,
    with_xyz: bool = False,
) -> Found:
    """(n, c), (n, 3) -> features of the nearest points (m, nsample, c or 3 + c), and their rows."""
    if idx is None:
        if nsample is None or offset is None:
            raise ValueError("nsample, offset: expected both where idx is None")
        idx, _ = knn_query(nsample, xyz, offset, new_xyz, new_offset)
    return grouping(idx, feat, xyz, new_xyz, with_xyz), idx


@checked(
    "feat n c, xyz n 3, new_xyz m 3, idx m nsample int",
    max_radius="max_radio",
    min_radius="min_radio",
)
def ball_query_and_group(
    feat: Tensor,
    xyz: Tensor,
    offset: OptTensor = None,
    new_xyz: OptTensor = None,
    new_offset: OptTensor = None,
    idx: OptTensor = None,
    max_radio: float | None = None,
    min_radio: float = 0,
    nsample: int | None = None,
    with_xyz: bool = False,
) -> Found:
    """Like `knn_query_and_group`, for the points of `ball_query`."""
    if idx is None:
        if nsample is None or offset is None or max_radio is None:
            raise ValueError("nsample, offset, max_radio: expected all where idx is None")
        idx, _ = ball_query(nsample, max_radio, min_radio, xyz, offset, new_xyz, new_offset)
    return grouping(idx, feat, xyz, new_xyz, with_xyz), idx


@checked("xyz n 3, new_xyz m 3, feat n c, idx m nsample int")
def query_and_group(
    nsample: int,
    xyz: Tensor,
    new_xyz: OptTensor,
    feat: Tensor,
    idx: OptTensor,
    offset: Tensor,
    new_offset: OptTensor,
    dilation: int = 0,
    with_feat: bool = True,
    with_xyz: bool = True,
) -> Found | Tensor:
    """Features of the nearest points (m, nsample, 3 + c), and their rows.

    Without `with_feat` only the rows, without `with_xyz` only the features of (m, nsample, c).
    """
    if dilation != 0:
        raise ValueError(f"dilation: expected 0, got {dilation}")
    found = knn_query_and_group(feat, xyz, offset, new_xyz, new_offset, idx, nsample, with_xyz)
    return found if with_feat else found[1]


@checked()
def queryandgroup(
    nsample: int,
    xyz: Tensor,
    new_xyz: OptTensor,
    feat: Tensor,
    idx: OptTensor,
    offset: Tensor,
    new_offset: OptTensor,
    use_xyz: bool = True,
    return_indx: bool = False,
) -> Found | Tensor:
    """Features of the nearest points (m, nsample, 3 + c), and their rows where asked for."""
    found = query_and_group(nsample, xyz, new_xyz, feat, idx, offset, new_offset, 0, True, use_xyz)
    return found if return_indx else found[0]


@checked(
    "xyz m 3, new_xyz n 3, feat m c, offset B int, new_offset B int", nsample="k", features="feat"
)
def interpolation2(
    xyz: Tensor, new_xyz: Tensor, feat: Tensor, offset: Tensor, new_offset: Tensor, k: int = 3
) -> Tensor:
    """(m, 3), (n, 3), (m, c), (B,), (B,) -> (n, c): means of the k nearest by inverse distance."""
    idx, distance = knn_query(k, xyz, offset, new_xyz, new_offset)
    weight = (distance + 1e-8).reciprocal().masked_fill(idx < 0, 0)
    weight = weight / weight.sum(1, keepdim=True)
    mean = interpolate(feat.t()[None], idx.clamp(min=0)[None], weight[None])
    return mean[0].t().contiguous()


def _bounds(name: str, offset: Tensor, points: OptTensor = None) -> Tensor:
    """0 and the ends, int64 (B + 1,); in a compiled graph the op checks where they end."""
    if not torch.compiler.is_compiling():
        ends = [0, *offset.tolist()]
        if ends != sorted(ends) or (points is not None and ends[-1] != len(points)):
            most = "" if points is None else f" to {len(points)}, the number of points"
            raise ValueError(f"{name}: expected offsets that rise{most}, got {ends[1:]}")
    return pad(offset.long(), (1, 0))


def _queries(
    xyz: Tensor, offset: Tensor, new_xyz: OptTensor, new_offset: OptTensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, the batch itself where there are none, and the bounds of points and queries."""
    if new_xyz is None or new_offset is None:
        new_xyz, new_offset = xyz, offset
    return new_xyz, _bounds("offset", offset, xyz), _bounds("new_offset", new_offset, new_xyz)


furthestsampling = farthest_point_sampling
interpolation = interpolation2

FarthestPointSampling = FurthestSampling = Applied(farthest_point_sampling)
Grouping = Applied(grouping2)
Interpolation = Applied(interpolation2)
BallQuery = Applied(ball_query)
KNNQuery = Applied(knn_query)
