"""Stand-in for `torch.autograd.Function`, of which existing code only calls `apply`."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True)
class Applied(Generic[P, R]):
    """``Applied(function).apply(...)`` is ``function(...)``, whose gradient is part of the op."""

    apply: Callable[P, R]
