"""Plain-torch twins of the libraries that `farpoint_ops.compat` replaces, as far as tests need.

Their gradients are torch's own.
"""

from types import SimpleNamespace

import torch
from torch import Tensor, nn

from farpoint_ops import reference


def plain_three_nn(unknown: Tensor, known: Tensor) -> tuple[Tensor, Tensor]:
    idx, squared = reference.knn(known.detach(), unknown.detach(), 3)
    return squared.sqrt(), idx


def plain_ball_query(radius: float, nsample: int, xyz: Tensor, new_xyz: Tensor) -> Tensor:
    return reference.ball_query(xyz.detach(), new_xyz.detach(), radius, nsample)[0]


class PlainQueryAndGroup(nn.Module):
    def __init__(self, radius: float, nsample: int, use_xyz: bool) -> None:
        super().__init__()
        assert use_xyz
        self.radius, self.nsample = radius, nsample

    def forward(self, xyz: Tensor, new_xyz: Tensor, features: Tensor) -> Tensor:
        idx = plain_ball_query(self.radius, self.nsample, xyz, new_xyz)
        grouped = reference.group_points(xyz.transpose(1, 2), idx)
        relative = grouped - new_xyz.transpose(1, 2)[..., None]
        return torch.cat([relative, reference.group_points(features, idx)], 1)


class PlainGroupAll(nn.Module):
    def __init__(self, use_xyz: bool) -> None:
        super().__init__()
        assert use_xyz

    def forward(self, xyz: Tensor, new_xyz: None, features: Tensor) -> Tensor:
        assert new_xyz is None
        return torch.cat([xyz.transpose(1, 2), features], 1)[:, :, None]


PLAIN_POINTNET2 = SimpleNamespace(
    furthest_point_sample=lambda xyz, m: reference.furthest_point_sample(xyz.detach(), m)[0],
    gather_operation=reference.gather_points,
    three_nn=plain_three_nn,
    three_interpolate=reference.interpolate,
    QueryAndGroup=PlainQueryAndGroup,
    GroupAll=PlainGroupAll,
    BallQuery=SimpleNamespace(apply=plain_ball_query),
    GroupingOperation=SimpleNamespace(apply=reference.group_points),
)


def each(xyz: Tensor, offset: Tensor, new_xyz: Tensor, new_offset: Tensor, k: int) -> Tensor:
    """Rows of the k nearest points (m, k), cloud by cloud."""
    rows, first = [], 0
    begins = [0, *new_offset.tolist()[:-1]]
    for end, begin, stop in zip(offset.tolist(), begins, new_offset.tolist(), strict=True):
        idx, _ = reference.knn(xyz[None, first:end].detach(), new_xyz[None, begin:stop].detach(), k)
        rows.append(idx[0].long() + first)
        first = end
    return torch.cat(rows)


def plain_sampling(xyz: Tensor, offset: Tensor, new_offset: Tensor) -> Tensor:
    samples = new_offset.diff(prepend=new_offset.new_zeros(1)).tolist()
    rows, _ = reference.furthest_point_sample_ragged(
        xyz.detach(), [0, *offset.tolist()], samples, [0] * len(samples)
    )
    return rows


def plain_knn_and_group(
    feat: Tensor,
    xyz: Tensor,
    offset: Tensor,
    new_xyz: Tensor,
    new_offset: Tensor,
    idx: Tensor | None = None,
    nsample: int = 0,
    with_xyz: bool = False,
) -> tuple[Tensor, Tensor]:
    idx = each(xyz, offset, new_xyz, new_offset, nsample) if idx is None else idx
    relative = xyz[idx] - new_xyz[:, None]
    return (torch.cat([relative, feat[idx]], -1) if with_xyz else feat[idx]), idx


def plain_interpolation(
    xyz: Tensor, new_xyz: Tensor, feat: Tensor, offset: Tensor, new_offset: Tensor
) -> Tensor:
    idx = each(xyz, offset, new_xyz, new_offset, 3)
    dist = (xyz[idx] - new_xyz[:, None]).norm(dim=-1).detach()
    weight = 1 / (dist + 1e-8)
    return (feat[idx] * (weight / weight.sum(1, keepdim=True))[..., None]).sum(1)


PLAIN_POINTOPS = SimpleNamespace(
    farthest_point_sampling=plain_sampling,
    furthestsampling=plain_sampling,
    knn_query_and_group=plain_knn_and_group,
    interpolation=plain_interpolation,
    queryandgroup=lambda k, p, n_p, x, idx, o, n_o, use_xyz: plain_knn_and_group(
        x, p, o, n_p, n_o, idx, k, use_xyz
    )[0],
    knnquery=lambda k, p, n_p, o, n_o: (each(p, o, n_p, n_o, k), None),
    grouping=lambda x, idx: x[idx],
    subtraction=lambda a, b, idx: a[:, None] - b[idx],
    aggregation=lambda x, position, w, idx: (
        (x[idx] + position) * w.repeat(1, 1, x.size(1) // w.size(2))
    ).sum(1),
)


PLAIN_DPCC = SimpleNamespace(
    furthestsampling=lambda xyz, m: reference.furthest_point_sample(xyz.detach(), m)[0],
    gathering=reference.gather_points,
    knnquery_heap=lambda k, xyz, new: reference.knn(xyz.detach(), new.detach(), k)[0],
    grouping=reference.group_points,
    grouping_int=reference.group_points,
)
