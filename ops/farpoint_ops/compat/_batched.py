"""Shared by the drop-ins: nearest neighbors without a gradient, grouping around centers."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, ParamSpec, TypeVar

import torch
from torch import Tensor, cat, nn
from torch.nn.functional import pad

from farpoint_ops import neighbors
from farpoint_ops.compat._checks import OptTensor, checked
from farpoint_ops.gather import group_points

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True)
class Applied(Generic[P, R]):
    """Stand-in for `torch.autograd.Function`, of which existing code only calls `apply`.

    ``Applied(function).apply(...)`` is ``function(...)``, whose gradient is part of the op.
    """

    apply: Callable[P, R]


def nearest(xyz: Tensor, queries: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Rows of `xyz` int32 (B, M, k) and distances (B, M, k), neither with a gradient.

    Where a cloud has fewer than k points, row 0 at an infinite distance fills the places left.
    """
    found = min(k, xyz.size(1))
    idx, squared = neighbors.knn(xyz.detach(), queries.detach(), found)
    return pad(idx, (0, k - found)), pad(squared.sqrt(), (0, k - found), value=math.inf)


class Groups(NamedTuple):
    """Neighborhoods of M centers, K points each."""

    joined: Tensor
    """Coordinates relative to the center in front of features (B, 3 + C, M, K), or either alone."""
    xyz: Tensor
    """Coordinates as they are (B, 3, M, K)."""
    relative: Tensor
    """Coordinates relative to the center (B, 3, M, K)."""
    idx: Tensor
    """Rows int32 (B, M, K)."""
    different: Tensor
    """Different rows of each group, float32 (B, M)."""


def query_and_group(
    xyz: Tensor,
    centers: Tensor,
    features: OptTensor,
    radius: float | None,
    k: int,
    *,
    use_xyz: bool = True,
    normalize: bool = False,
    uniformly: bool = False,
    idx: OptTensor = None,
) -> Groups:
    """Groups of the first k points in a ball, or of the k nearest where `radius` is None.

    Args:
        xyz: Points (B, N, 3).
        centers: Centers of the groups (B, M, 3).
        features: Features of the points (B, C, N).
        radius: Radius of the ball.
        k: Points of a group.
        use_xyz: Whether `joined` begins with coordinates.
        normalize: Whether relative coordinates are divided by the radius.
        uniformly: Whether random ones of the rows found fill a group, instead of the first.
        idx: Rows of the groups, which are then not searched for.
    """
    if features is None and not use_xyz:
        raise ValueError("features: expected a tensor where use_xyz is False, got None")
    counts = xyz.new_full(centers.shape[:2], min(k, xyz.size(1)))
    if idx is None and radius is None:
        idx = nearest(xyz, centers, k)[0]
    elif idx is None:
        assert radius is not None
        idx, counts = neighbors.ball_query(xyz, centers, radius, k)
    different = counts.clamp(min=1)
    if uniformly:
        idx = _filled_uniformly(idx, different)
    grouped = group_points(xyz.transpose(1, 2), idx)
    relative = grouped - centers.transpose(1, 2).unsqueeze(-1)
    if normalize and radius is not None:
        relative = relative / radius
    parts = [relative] if use_xyz else []
    parts += [] if features is None else [group_points(features, idx)]
    return Groups(cat(parts, dim=1), grouped, relative, idx, different.float())


def _filled_uniformly(idx: Tensor, different: Tensor) -> Tensor:
    """Rows (B, M, K) of which those behind the `different` first (B, M) are random ones of them."""
    places = torch.arange(idx.size(-1), device=idx.device).expand_as(idx)
    drawn = (torch.rand(idx.shape, device=idx.device) * different[..., None]).long()
    drawn = drawn.minimum(different[..., None].long() - 1)  # a product may round up
    return idx.gather(-1, torch.where(places < different[..., None], places, drawn))


class GroupAll(nn.Module):
    """All points of a cloud as one group."""

    @checked()
    def __init__(self, use_xyz: bool = True, ret_grouped_xyz: bool = False) -> None:
        super().__init__()
        self.use_xyz, self.ret_grouped_xyz = use_xyz, ret_grouped_xyz

    @checked("xyz B N 3, features B C N")
    def forward(
        self,
        xyz: Tensor,
        new_xyz: OptTensor,  # noqa: ARG002  as QueryAndGroup has it
        features: OptTensor = None,
    ) -> Any:
        """(B, N, 3), anything, (B, C, N) -> (B, 3 + C, 1, N).

        With `ret_grouped_xyz` also the coordinates (B, 3, 1, N).
        """
        grouped = xyz.transpose(1, 2).unsqueeze(2)
        parts = [grouped] if self.use_xyz or features is None else []
        parts += [] if features is None else [features.unsqueeze(2)]
        joined = cat(parts, dim=1)
        return (joined, grouped) if self.ret_grouped_xyz else joined
