"""The squared distance of the contract, in plain torch."""

import torch
from torch import Tensor


def fma(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """``a * b + c`` of float32 or float64 tensors, rounded once."""
    return _fma_double(a, b, c) if a.dtype == torch.float64 else _fma_float(a, b, c)


def _two_sum(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """The rounded sum and what it lost, exactly (Knuth)."""
    total = a + b
    rest = total - a
    return total, (a - (total - rest)) + (b - rest)


def _two_product(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """The rounded product and what it lost, exactly unless it is huge or tiny (Dekker)."""

    def split(v: Tensor) -> tuple[Tensor, Tensor]:
        high = v * 134217729.0
        high = high - (high - v)
        return high, v - high

    product = a * b
    (ah, al), (bh, bl) = split(a), split(b)
    return product, ((ah * bh - product) + ah * bl + al * bh) + al * bl


def _round_to_odd(a: Tensor, b: Tensor) -> Tensor:
    """a + b, and where that is not exact the neighbor of it whose last bit is 1."""
    total, lost = _two_sum(a, b)
    inexact_even = (lost != 0) & lost.isfinite() & (total.view(torch.int64) % 2 == 0)
    toward = torch.where(lost > 0, torch.inf, -torch.inf).double()
    return torch.where(inexact_even, total.nextafter(toward), total)


def _fma_double(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """Boldo and Melquiond (see below), section 5; the plain formula where a part overflows."""
    high, low = _two_product(a, b)
    first, rest = _two_sum(c.expand_as(low), low)
    top, bottom = _two_sum(high, first)
    exact = top + _round_to_odd(rest, bottom)
    return torch.where(exact.isfinite(), exact, a * b + c)


def _fma_float(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """``a * b + c`` of float32 tensors, rounded once.

    The product of two float32 is exact in float64. The float64 sum with `c` is not, and rounding
    it again to float32 could go the wrong way from a tie that the first rounding made. Rounded to
    odd instead (a float64 that is not exact ends in a 1 bit), it is never such a tie, and the
    second rounding is the only one: Boldo and Melquiond, "Emulation of a FMA and Correctly Rounded
    Sums", IEEE Transactions on Computers 57(4), 2008.
    """
    product, addend = a.double() * b.double(), c.double()
    return _round_to_odd(product, addend).float()


def squared_distance(points: Tensor, point: Tensor) -> Tensor:
    """Squared distances of points (..., D) to others that broadcast with them.

    Bit for bit what every kernel computes, in float32 or float64.
    """
    apart = points - point
    total = torch.zeros_like(apart[..., 0])
    for d in apart.unbind(-1):
        total = fma(d, d, total)
    return total
