"""Tensors of the op tests: drawn from a seed, compared bit for bit; small inputs of every op."""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import pytest
import torch
from torch import Tensor

import farpoint_ops  # noqa: F401  registers the ops


def assert_same(actual: tuple[Tensor, ...], expected: tuple[Tensor, ...]) -> None:
    """Equal dtypes and equal bits, on any device."""
    for a, e in zip(actual, expected, strict=True):
        assert a.dtype == e.dtype
        assert torch.equal(a.cpu(), e.cpu())


def random(device: torch.device, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0)).to(device)


ops = torch.ops.farpoint
Arguments = tuple[Any, ...]


@dataclass(frozen=True)
class Make:
    """Seeded arguments: B clouds, C channels, N points, M samples, K neighbors."""

    device: torch.device
    dtype: torch.dtype = torch.float32
    b: int = 2
    c: int = 3
    n: int = 6
    m: int = 4
    k: int = 2
    generator: torch.Generator = field(default_factory=lambda: torch.Generator().manual_seed(0))

    def values(self, *shape: int) -> Tensor:
        return torch.randn(*shape, generator=self.generator).to(self.device, self.dtype)

    def idx(self, high: int, *shape: int) -> Tensor:
        return torch.randint(max(high, 1), shape, generator=self.generator).to(self.device)

    def features(self) -> Tensor:
        return self.values(self.b, self.c, self.n)

    def cloud(self) -> Tensor:
        return self.values(self.b, self.n, 3)

    def samples(self) -> Tensor:
        return self.values(self.b, self.m, 3)


@dataclass(frozen=True)
class Derivative:
    """One argument's gradient: our ops that compute it, and what they need again."""

    ops: tuple[str, ...]
    arguments: tuple[int, ...]
    outputs: tuple[int, ...] = ()


@dataclass(frozen=True)
class Case:
    """An op, its arguments, and the derivative of each argument that has one, by position.

    The differentiable output is the first.
    """

    op: Any
    arguments: Callable[[Make], Arguments]
    derivatives: dict[int, Derivative]

    def outputs(self, *arguments: Any) -> tuple[Tensor, ...]:
        out = self.op(*arguments)
        return out if isinstance(out, tuple) else (out,)

    def __call__(self, *arguments: Any) -> Tensor:
        return self.outputs(*arguments)[0]

    def with_gradients(self, make: Make, wanted: tuple[int, ...] | None = None) -> Arguments:
        """Fresh arguments, of which those in `wanted` (all that can) require a gradient."""
        arguments = self.arguments(make)
        for position in self.derivatives if wanted is None else wanted:
            arguments[position].requires_grad_()
        return arguments

    def subsets(self) -> list[tuple[int, ...]]:
        """Every choice of arguments that require a gradient."""
        positions = list(self.derivatives)
        return [s for r in range(1, len(positions) + 1) for s in combinations(positions, r)]

    def work(self, wanted: tuple[int, ...]) -> list[str]:
        """Our ops that the gradients of `wanted` take, each once."""
        return sorted({op for position in wanted for op in self.derivatives[position].ops})


def every_point(x: Make) -> Tensor:
    return torch.arange(x.n, device=x.device).repeat(x.b, 1)


DIFFERENTIABLE = {
    "gather": Case(
        ops.gather_points,
        lambda x: (x.features(), x.idx(x.n, x.b, x.m)),
        {0: Derivative(("scatter_points",), (1,))},
    ),
    "gather of every point": Case(
        ops.gather_points,
        lambda x: (x.features(), every_point(x)),
        {0: Derivative(("scatter_points",), (1,))},
    ),
    "scatter": Case(
        ops.scatter_points,
        lambda x: (x.values(x.b, x.c, x.m), x.idx(x.n, x.b, x.m), x.n),
        {0: Derivative(("gather_points",), (1,))},
    ),
    "group": Case(
        ops.group_points,
        lambda x: (x.features(), x.idx(x.n, x.b, x.m, x.k)),
        {0: Derivative(("scatter_points",), (1,))},
    ),
    "knn": Case(
        ops.knn,
        lambda x: (x.cloud(), x.samples(), x.k),
        {
            0: Derivative(("group_points", "scatter_points"), (0, 1), (1,)),
            1: Derivative(("group_points",), (0, 1), (1,)),
        },
    ),
    "interpolate": Case(
        ops.interpolate,
        lambda x: (
            x.values(x.b, x.c, x.m),
            x.idx(x.m, x.b, x.n if x.m else 0, x.k),
            x.values(x.b, x.n if x.m else 0, x.k),
        ),
        {
            0: Derivative(("interpolate_scatter",), (1, 2)),
            2: Derivative(("interpolate_dot",), (0, 1)),
        },
    ),
    "interpolate_scatter": Case(
        ops.interpolate_scatter,
        lambda x: (x.features(), x.idx(x.m, x.b, x.n, x.k), x.values(x.b, x.n, x.k), x.m + 1),
        {0: Derivative(("interpolate",), (1, 2)), 2: Derivative(("interpolate_dot",), (0, 1))},
    ),
    "interpolate_dot": Case(
        ops.interpolate_dot,
        lambda x: (x.features(), x.values(x.b, x.c, x.m + 1), x.idx(x.m, x.b, x.n, x.k)),
        {0: Derivative(("interpolate",), (1, 2)), 1: Derivative(("interpolate_scatter",), (0, 2))},
    ),
}


def integers(x: Make, *values: int) -> Tensor:
    return torch.tensor(values, device=x.device)


WITHOUT_GRADIENT: dict[str, Callable[[Make], Arguments]] = {
    "furthest_point_sample": lambda x: (x.cloud(), x.m, None, None, True),
    "furthest_point_sample_ragged": lambda x: (
        *(x.values(x.n, 3), integers(x, 0, x.n), integers(x, 0, x.m), None),
        *(x.m, x.n, x.m, True),
    ),
    "ball_query": lambda x: (x.cloud(), x.samples(), 1.0, x.k),
    "nearest_sample": lambda x: (x.cloud(), x.samples()),
    "count_points": lambda x: (x.idx(x.m, x.b, x.n), x.m),
}

# A graph takes seconds to compile: without -m slow, of these alone.
QUICK = {"gather", "knn", "interpolate"}
few_are_quick = pytest.mark.parametrize(
    "case",
    [pytest.param(n, marks=[] if n in QUICK else pytest.mark.slow) for n in DIFFERENTIABLE],
    indirect=True,
)
