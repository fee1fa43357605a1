"""Query-and-group functions of the ``pointops`` with offsets."""

import torch
from torch import Tensor

from farpoint_ops.compat.pointops._offsets import split
from farpoint_ops.compat.pointops.balls import ball_query
from farpoint_ops.compat.pointops.features import group_around
from farpoint_ops.compat.pointops.queries import knn_query


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
    return group_around(idx, feat, xyz, new_xyz, with_xyz), idx


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
    """As `knn_query_and_group`, for the points that `ball_query` finds."""
    if idx is None:
        if nsample is None or offset is None or max_radio is None:
            raise ValueError("nsample, offset, max_radio: expected all where idx is None")
        idx, _ = ball_query(nsample, max_radio, min_radio, xyz, offset, new_xyz, new_offset)
    return group_around(idx, feat, xyz, new_xyz, with_xyz), idx


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
        idx = _dilated(nsample, xyz, new_xyz, offset, new_offset, dilation)
    if not with_feat:
        return idx
    return group_around(idx, feat, xyz, new_xyz, with_xyz), idx


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
    if idx is None:
        idx, _ = knn_query(nsample, xyz, offset, new_xyz, new_offset)
    grouped = group_around(idx, feat, xyz, new_xyz, use_xyz)
    return (grouped, idx) if return_indx else grouped


def _dilated(
    nsample: int,
    xyz: Tensor,
    new_xyz: Tensor | None,
    offset: Tensor,
    new_offset: Tensor,
    dilation: int,
) -> Tensor:
    reach = 1 + (nsample - 1) * (dilation + 1)
    idx, _ = knn_query(reach, xyz, offset, new_xyz, new_offset)
    if dilation == 0:
        return idx
    picked = []
    queries = split(idx, "new_offset", offset if new_xyz is None else new_offset)
    for cloud, rows in zip(split(xyz, "offset", offset), queries, strict=True):
        step = min(dilation + 1.0, (len(cloud) - 1) / max(nsample - 1, 1))
        picked.append(rows[:, [int(step * i) for i in range(nsample)]])
    return torch.cat(picked)
