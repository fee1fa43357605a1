"""Fake (meta) kernels of every op, for torch.compile and torch.export."""

# ruff: noqa: ARG001  arguments are those of the schemas

import torch
from torch import Tensor
from torch.library import register_fake

# A dimension, symbolic or not.
Size = int | torch.SymInt


def _distance_type(*points: Tensor) -> torch.dtype:
    wide = any(each.dtype == torch.float64 for each in points)
    return torch.float64 if wide else torch.float32


def _samples(xyz: Tensor, shape: tuple[Size, ...], return_distances: bool) -> tuple[Tensor, Tensor]:
    indices = xyz.new_empty(shape, dtype=torch.int32)
    distances = xyz.new_empty(shape if return_distances else (0,), dtype=_distance_type(xyz))
    return indices, distances


def _furthest_point_sample(
    xyz: Tensor,
    m: Size,
    start: Tensor | None = None,
    lengths: Tensor | None = None,
    return_distances: bool = False,
    radius: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    return _samples(xyz, (xyz.size(0), m), return_distances)


def _furthest_point_sample_ragged(
    xyz: Tensor,
    offsets: Tensor,
    sample_offsets: Tensor,
    start: Tensor | None,
    total_samples: Size,
    max_points: Size,
    max_samples: Size,
    return_distances: bool = False,
    radius: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    return _samples(xyz, (total_samples,), return_distances)


def _gather_points(features: Tensor, idx: Tensor) -> Tensor:
    return features.new_empty((*features.shape[:2], idx.size(1)))


def _scatter_points(values: Tensor, idx: Tensor, n: Size) -> Tensor:
    return values.new_empty((*values.shape[:2], n))


def _group_points(features: Tensor, idx: Tensor) -> Tensor:
    return features.new_empty((*features.shape[:2], *idx.shape[1:]))


def _knn(
    xyz: Tensor, queries: Tensor, k: Size, lengths: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    shape = (*queries.shape[:-1], k)
    squared = xyz.new_empty(shape, dtype=_distance_type(xyz, queries))
    return squared, xyz.new_empty(shape, dtype=torch.int32)


def _ball_query(
    xyz: Tensor,
    centers: Tensor,
    radius: float,
    k: Size,
    lengths: Tensor | None = None,
    min_radius: float = 0.0,
    shells: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    idx = xyz.new_empty((*centers.shape[:2], k), dtype=torch.int32)
    return idx, idx.new_empty(centers.shape[:2])


def _nearest_sample(
    xyz: Tensor,
    samples: Tensor,
    lengths: Tensor | None = None,
    sample_lengths: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    assignment = xyz.new_empty(xyz.shape[:2], dtype=torch.int32)
    return assignment, xyz.new_empty(xyz.shape[:2], dtype=_distance_type(xyz, samples))


def _count_points(assignment: Tensor, m: Size) -> Tensor:
    return assignment.new_empty((assignment.size(0), m), dtype=torch.int32)


def _interpolate(features: Tensor, idx: Tensor, weight: Tensor) -> Tensor:
    return features.new_empty((*features.shape[:2], idx.size(1)))


def _interpolate_scatter(values: Tensor, idx: Tensor, weight: Tensor, m: Size) -> Tensor:
    return values.new_empty((*values.shape[:2], m))


def _interpolate_dot(values: Tensor, features: Tensor, idx: Tensor) -> Tensor:
    return values.new_empty(idx.shape)


for _fake in (
    _furthest_point_sample,
    _furthest_point_sample_ragged,
    _gather_points,
    _scatter_points,
    _group_points,
    _knn,
    _ball_query,
    _nearest_sample,
    _count_points,
    _interpolate,
    _interpolate_scatter,
    _interpolate_dot,
):
    register_fake(f"farpoint::{_fake.__name__[1:]}", _fake)
