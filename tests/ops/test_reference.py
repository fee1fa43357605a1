"""Fused multiply-add of the reference implementation against exact rational arithmetic."""

from fractions import Fraction

import numpy as np
import torch
from tests.support.reference import fma


def rounded(exact: Fraction) -> np.float32:
    """The float32 nearest to an exact value, the even one on a tie."""
    guess = np.float32(float(exact))
    near = [
        np.nextafter(guess, np.float32(-np.inf)),
        guess,
        np.nextafter(guess, np.float32(np.inf)),
    ]
    return min(near, key=lambda f: (abs(Fraction(float(f)) - exact), int(f.view(np.int32)) & 1))


def check(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> None:
    actual = fma(*(torch.from_numpy(v) for v in (a, b, c))).numpy()
    for x, y, z, result in zip(a, b, c, actual, strict=True):
        exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
        assert result == rounded(exact), (x, y, z)


def test_random_values_of_every_scale() -> None:
    rng = np.random.default_rng(0)
    a, b, c = (rng.normal(size=(3, 3000)) * 10.0 ** rng.integers(-12, 12, (3, 3000))).astype("f4")
    check(a, b, c)


def test_sums_that_rounding_twice_gets_wrong() -> None:
    """a * b is a float32 tie, which c breaks from below the last bit of a float64."""
    a = np.full(4, 1 + 2.0**-12, "f4")
    c = np.array([2.0**-70, -(2.0**-70), 2.0**-100, -(2.0**-100)], "f4")
    twice = (a.astype("f8") * a + c).astype("f4")
    once = np.array(
        [rounded(Fraction(float(x)) ** 2 + Fraction(float(z))) for x, z in zip(a, c, strict=True)]
    )
    assert (twice != once).any()
    check(a, a, c)


def test_infinities_stay_infinite() -> None:
    inf, one, big = (torch.tensor([v]) for v in (torch.inf, 1.0, 3e38))
    assert fma(inf, inf, one).item() == fma(one, one, inf).item() == torch.inf
    assert fma(big, big, big).item() == torch.inf


def test_fma_of_doubles_is_rounded_once() -> None:
    """Against exact fractions, with sums that cancel and products of any size."""
    generator = torch.Generator().manual_seed(1)
    a, b, c = torch.randn(3, 4000, dtype=torch.float64, generator=generator)
    c[1000:] = -(a * b)[1000:] * (1 + torch.randint(-3, 4, (3000,)) * 2.0**-52)
    b[2000:] *= 1e100
    c[2500:] *= 1e90
    exact = [
        Fraction(x) * Fraction(y) + Fraction(z)
        for x, y, z in zip(*(t.tolist() for t in (a, b, c)), strict=True)
    ]
    expected = torch.tensor([float(v) for v in exact], dtype=torch.float64)
    assert torch.equal(fma(a, b, c), expected)
