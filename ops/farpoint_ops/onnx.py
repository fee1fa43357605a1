"""Ops in plain torch, for `torch.onnx`: ONNX has no farthest point sampling.

    import farpoint_ops.onnx
    program = torch.export.export(model, example)
    program = program.run_decompositions(farpoint_ops.onnx.decompositions())
    torch.onnx.export(program, dynamo=True).save("model.onnx")

The graph has standard operators alone and runs in any runtime. Distances are rounded without fused
multiply-add, so rows may differ from the ops' where two distances agree in 23 bits; rows that are
not finite are not treated apart. Sampling is a group of nodes for each sample, about ten.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def decompositions() -> dict[torch._ops.OperatorBase, Callable[..., Any]]:
    """The table for `ExportedProgram.run_decompositions`: torch's own, and the ops' below.

    Raises:
        NotImplementedError: at the export, for clouds with `lengths`, a sampling with `radius` or
            of a number that depends on sizes, or k above N in knn and ball_query.
    """
    ops: Any = torch.ops.farpoint
    own = {
        ops.furthest_point_sample.default: _furthest_point_sample,
        ops.gather_points.default: _gather_points,
        ops.group_points.default: _group_points,
        ops.interpolate.default: _interpolate,
        ops.knn.default: _knn,
        ops.ball_query.default: _ball_query,
        ops.nearest_sample.default: _nearest_sample,
        ops.count_points.default: _count_points,
    }
    return {**torch.export.default_decompositions(), **own}


def _refuse(**given: object) -> None:
    for name, value in given.items():
        if value is not None:
            raise NotImplementedError(f"{name}: expected None for ONNX, got {value!r}")


def _squared(xyz: Tensor, queries: Tensor) -> Tensor:
    """(B, N, D), (B, M, D) -> (B, M, N)."""
    return (queries[:, :, None] - xyz[:, None]).square().sum(-1)


def _furthest_point_sample(
    xyz: Tensor,
    m: int | torch.SymInt,
    start: Tensor | None = None,
    lengths: Tensor | None = None,
    return_distances: bool = False,
    radius: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    _refuse(lengths=lengths, radius=radius)
    if not isinstance(m, int):
        raise NotImplementedError(f"num_samples: expected a number for ONNX, got {m}, which varies")
    xyz = xyz if xyz.dtype == torch.float64 else xyz.float()
    row = xyz.new_zeros(xyz.size(0), dtype=torch.int64) if start is None else start.long()
    left = torch.full_like(xyz[..., 0], torch.inf)
    rows, distances = [], []
    for _ in range(m):
        point = xyz.gather(1, row[:, None, None].expand(-1, 1, xyz.size(2)))
        # A sample is not taken again, also where all points that are left coincide with samples.
        left = left.minimum(_squared(xyz, point)[:, 0]).scatter(1, row[:, None], -1.0)
        rows.append(row)
        farthest, row = left.max(1)
        distances.append(farthest.clamp(min=0).sqrt())
    kept = torch.stack(distances, 1) if return_distances else xyz.new_empty(0)
    return torch.stack(rows, 1).int(), kept


def _gather_points(features: Tensor, idx: Tensor) -> Tensor:
    return features.gather(2, idx.long()[:, None].expand(-1, features.size(1), -1))


def _group_points(features: Tensor, idx: Tensor) -> Tensor:
    return _gather_points(features, idx.flatten(1)).reshape(*features.shape[:2], *idx.shape[1:])


def _interpolate(features: Tensor, idx: Tensor, weight: Tensor) -> Tensor:
    return (_group_points(features, idx) * weight[:, None]).sum(-1)


def _knn(
    xyz: Tensor, queries: Tensor, k: int, lengths: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    _refuse(lengths=lengths, k=k if k > xyz.size(1) else None)
    squared, rows = _squared(xyz, queries).topk(k, largest=False)
    return squared, rows.int()


def _ball_query(
    xyz: Tensor,
    centers: Tensor,
    radius: float,
    k: int,
    lengths: Tensor | None = None,
    min_radius: float = 0.0,
    shells: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    n = xyz.size(1)
    _refuse(lengths=lengths, k=k if k > n else None)
    radii: Any = (min_radius, radius) if shells is None else shells.T[..., None, None]
    inner, outer = radii[0] ** 2, radii[1] ** 2
    squared = _squared(xyz, centers)
    inside = (squared < outer) & ((squared >= inner) | (squared == 0))
    ranked = torch.where(inside, torch.arange(n, device=xyz.device), n)
    rows = ranked.topk(k, largest=False)[0]
    rows = torch.where(rows < n, rows, rows[..., :1])
    return torch.where(rows < n, rows, 0).int(), inside.sum(-1).clamp(max=k).int()


def _nearest_sample(
    xyz: Tensor,
    samples: Tensor,
    lengths: Tensor | None = None,
    sample_lengths: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    _refuse(lengths=lengths, sample_lengths=sample_lengths)
    squared, rows = _squared(samples, xyz).min(-1)
    return rows.int(), squared


def _count_points(assignment: Tensor, m: int) -> Tensor:
    return (assignment[..., None] == torch.arange(m, device=assignment.device)).sum(1).int()
