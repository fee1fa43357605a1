"""The squared distance of the contract, in plain torch."""

import torch
from torch import Tensor


def fma(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """``a * b + c`` of float32 tensors, rounded once.

    The product of two float32 is exact in float64. The float64 sum with `c` is not, and rounding
    it again to float32 could go the wrong way from a tie that the first rounding made. Rounded to
    odd instead (a float64 that is not exact ends in a 1 bit), it is never such a tie, and the
    second rounding is the only one: Boldo and Melquiond, "Emulation of a FMA and Correctly Rounded
    Sums", IEEE Transactions on Computers 57(4), 2008.
    """
    product, addend = a.double() * b.double(), c.double()
    total = product + addend
    # The part that the sum lost, exactly (Knuth's TwoSum); not finite where the sum overflowed.
    rest = total - product
    lost = (product - (total - rest)) + (addend - rest)
    inexact_even = (lost != 0) & lost.isfinite() & (total.view(torch.int64) % 2 == 0)
    toward = torch.where(lost > 0, torch.inf, -torch.inf).double()
    return torch.where(inexact_even, total.nextafter(toward), total).float()


def squared_distance(points: Tensor, point: Tensor) -> Tensor:
    """Squared distances of points (..., 3) to others that broadcast with them.

    Of float32 points bit for bit what every kernel computes; of float64 ones within rounding.
    """
    dx, dy, dz = (points - point).unbind(-1)
    if points.dtype == torch.float64:
        return dx * dx + dy * dy + dz * dz
    return fma(dz, dz, fma(dy, dy, dx * dx))
