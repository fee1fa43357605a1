"""Benchmarks of gather_points, group_points and interpolate against plain torch."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

import farpoint_ops
from benchmarks.common.report import Row, interleaved

BUDGET_SECONDS = 0.5

Forward = Callable[[], Tensor]


class Problem(NamedTuple):
    op: str
    size: str
    calls: dict[str, Forward]
    inputs: list[Tensor]  # those with a gradient


def _gathered(features: Tensor, wide: Tensor) -> Tensor:
    """(B, C, N), int64 (B, 1, ...) -> (B, C, ...)."""
    index = wide.flatten(2).expand(-1, features.size(1), -1)
    return features.gather(2, index).view(*index.shape[:2], *wide.shape[2:])


def columns(op: str, features: Tensor, idx: Tensor) -> Problem:
    """Torch gets its indices as int64 and shaped as it wants them, at no cost."""
    long = idx.long()
    ours = farpoint_ops.gather_points if idx.dim() == 2 else farpoint_ops.group_points
    calls: dict[str, Forward] = {
        "farpoint": lambda: ours(features, idx),
        "torch.gather": lambda: _gathered(features, long[:, None]),
    }
    return Problem(op, f"{_shape(features)} at {_shape(idx)}", calls, [features])


def sums(features: Tensor, idx: Tensor, weight: Tensor) -> Problem:
    wide = idx.long()[:, None]
    calls: dict[str, Forward] = {
        "farpoint": lambda: farpoint_ops.interpolate(features, idx, weight),
        "gather + sum": lambda: (_gathered(features, wide) * weight[:, None]).sum(-1),
    }
    size = f"{_shape(features)} at {_shape(idx)}"
    return Problem("interpolate", size, calls, [features, weight])


def _shape(tensor: Tensor) -> str:
    return " x ".join(map(str, tensor.shape))


def problems() -> Iterator[Problem]:
    """Shapes of a segmentation network for eight clouds; grouping is its largest step."""
    generator = torch.Generator().manual_seed(0)
    real = partial(torch.rand, generator=generator, requires_grad=True)
    rows = partial(torch.randint, generator=generator, dtype=torch.int32)
    yield columns("gather_points", real(8, 64, 16_384), rows(16_384, (8, 4096)))
    yield columns("group_points", real(8, 64, 4096), rows(4096, (8, 1024, 32)))
    yield sums(real(8, 128, 1024), rows(1024, (8, 4096, 3)), real(8, 4096, 3))


def _forward(call: Forward, _: Problem) -> list[Tensor]:
    with torch.no_grad():
        return [call()]


def _training(call: Forward, problem: Problem) -> list[Tensor]:
    out = call()
    return [out, *torch.autograd.grad(out, problem.inputs, torch.ones_like(out))]


def rows() -> Iterator[Row]:
    for problem in problems():
        yield from _rows(problem)


def _rows(problem: Problem) -> Iterator[Row]:
    for step, run in (("forward", _forward), ("forward and backward", _training)):
        calls = {name: partial(run, call, problem) for name, call in problem.calls.items()}
        ours = calls["farpoint"]()
        left_out = {
            name: "other results"
            for name, call in calls.items()
            if not all(map(partial(torch.allclose, rtol=1e-4, atol=1e-5), call(), ours))
        }
        for threads in (1, 2):
            torch.set_num_threads(threads)
            timed = {name: call for name, call in calls.items() if name not in left_out}
            ms = interleaved(timed, BUDGET_SECONDS)
            yield {
                "op": problem.op,
                "size": problem.size,
                "step": step,
                "threads": threads,
                "farpoint_ms": ms.pop("farpoint"),
                "peers_ms": ms,
                "left_out": left_out,
            }
    torch.set_num_threads(1)
