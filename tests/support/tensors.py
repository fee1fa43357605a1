"""Tensors of the op tests: drawn from a seed, and compared bit for bit."""

import torch
from torch import Tensor


def assert_same(actual: tuple[Tensor, ...], expected: tuple[Tensor, ...]) -> None:
    """Equal dtypes and equal bits, on any device."""
    for a, e in zip(actual, expected, strict=True):
        assert a.dtype == e.dtype
        assert torch.equal(a.cpu(), e.cpu())


def random(device: torch.device, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0)).to(device)
