"""Batching rules (torch.vmap) of every op: the mapped dimension is folded into the batch."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.library import register_vmap

Outputs = Tensor | tuple[Tensor, ...]
Dims = tuple[int | None, ...]


def _in_front(argument: object, dim: int | None, size: int) -> Any:
    """The tensor as (V, ...), mapped or not; other values are unchanged."""
    if not isinstance(argument, Tensor):
        return argument
    return argument.expand(size, *argument.shape) if dim is None else argument.movedim(dim, 0)


def _folded(op: Callable[..., Outputs]) -> Callable[..., tuple[Outputs, int]]:
    """The rule of an op with the batch in front in all tensors and outputs."""

    def rule(info: Any, in_dims: Dims, *args: object) -> tuple[Outputs, int]:
        size = info.batch_size
        arguments = [_in_front(a, d, size) for a, d in zip(args, in_dims, strict=True)]
        batch = next(a.size(1) for a in arguments if isinstance(a, Tensor))
        out = op(*(a.flatten(0, 1) if isinstance(a, Tensor) else a for a in arguments))
        if isinstance(out, Tensor):
            return _unfolded(out, size, batch), 0
        return tuple(_unfolded(t, size, batch) for t in out), 0

    return rule


def _unfolded(output: Tensor, size: int, batch: int) -> Tensor:
    """(V * B, ...) -> (V, B, ...); an output that was not requested is empty and flat."""
    if output.dim() == 1 and output.numel() == 0 and size * batch > 0:
        return output.expand(size, 0)
    return output.view(size, batch, *output.shape[1:])


def _stacked(offsets: Tensor, total: int) -> Tensor:
    """Offsets (V, B + 1) of batches of `total` rows each, as those of one batch, (V * B + 1,)."""
    first = torch.arange(len(offsets), device=offsets.device) * total
    ends = offsets[:, 1:] + first[:, None]
    return torch.cat([offsets.new_zeros(1), ends.flatten()])


def _furthest_point_sample_ragged(
    info: Any,
    in_dims: Dims,
    *args: Any,  # as in the schema; defaults at its end are left out
) -> tuple[tuple[Tensor, Tensor], int]:
    size = info.batch_size
    given = [_in_front(a, d, size) for a, d in zip(args, in_dims, strict=True)]
    given += (False, None)[len(given) - 7 :]
    xyz, offsets, slots, start, total, points, samples, return_distances, radius = given
    rows = xyz.size(1)
    indices, distances = torch.ops.farpoint.furthest_point_sample_ragged(
        *(xyz.flatten(0, 1), _stacked(offsets, rows), _stacked(slots, total)),
        None if start is None else start.flatten(),
        *(size * total, points, samples, return_distances),
        None if radius is None else radius.flatten(),
    )
    distances = distances.view(size, total if return_distances else 0)
    indices = indices.view(size, total)
    first = torch.arange(size, device=indices.device, dtype=indices.dtype)[:, None] * rows
    return (torch.where(indices < 0, indices, indices - first), distances), 0


def register() -> None:
    """Registers the rules with torch."""
    for name in (
        "furthest_point_sample",
        "gather_points",
        "scatter_points",
        "group_points",
        "knn",
        "ball_query",
        "nearest_sample",
        "count_points",
        "interpolate",
        "interpolate_scatter",
        "interpolate_dot",
    ):
        register_vmap(f"farpoint::{name}", _folded(getattr(torch.ops.farpoint, name)))
    register_vmap("farpoint::furthest_point_sample_ragged", _furthest_point_sample_ragged)
