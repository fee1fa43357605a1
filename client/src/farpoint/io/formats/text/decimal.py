"""Decimal text to float64 with array operations: exact, and as fast as the parsers of compilers.

A number of up to eight digits on each side of its point is two loads of eight bytes, each turned
into an integer with three multiplications. The quotient of two integers below 2^53 and a power of
ten up to 10^22 is correctly rounded (Clinger, 1990), so what comes out is what `float` gives.
Anything else (exponents, nan, more digits) is left to `float`.
"""

import warnings

import numpy as np

from farpoint._types import Array

# Small enough that what is computed on the way stays in the cache.
BLOCK_TOKENS = 1 << 14
_PAD = 8
_LONGEST = 64
_POWERS_OF_TEN = 10.0 ** np.arange(23)
_INTEGER_POWERS = 10 ** np.arange(_PAD + 1, dtype=np.int64)
_ZEROS = np.uint64(0x3030303030303030)
# Neighbors are joined: digits to pairs, pairs to fours, fours to one number.
_STEPS = tuple(
    (np.uint64((factor << bits) + 1), np.uint64(bits), np.uint64(mask))
    for factor, bits, mask in (
        (10, 8, 0x00FF00FF00FF00FF),
        (100, 16, 0x0000FFFF0000FFFF),
        (10_000, 32, 0xFFFFFFFF),
    )
)


class NotANumberError(ValueError):
    """A token is no number; `token` says which of them, by position."""

    def __init__(self, token: int, text: str) -> None:
        super().__init__(f"{text!r} is no number")
        self.token = token


def parse_decimals(text: Array, begins: Array, ends: Array) -> Array:
    """The numbers that tokens of a text spell.

    Args:
        text: (bytes,) uint8.
        begins: (T,) int64, where each token begins.
        ends: (T,) int64, behind its last byte; no token is empty.

    Returns:
        (T,) float64.

    Raises:
        NotANumberError: for the first token that `float` would refuse.
    """
    padded = np.empty(len(text) + 2 * _PAD, np.uint8)
    padded[:_PAD] = padded[-_PAD:] = 48
    padded[_PAD:-_PAD] = text
    values = np.empty(len(begins))
    for at in range(0, len(begins), BLOCK_TOKENS):
        part = slice(at, at + BLOCK_TOKENS)
        found, known = _parse_block(padded, begins[part] + _PAD, ends[part] + _PAD)
        values[part] = found
        if known is None:
            continue
        unknown = np.flatnonzero(~known) + at
        all_of_them = None
        if 2 * len(unknown) > len(found):
            all_of_them = _parse_run(text, begins[part], ends[part])
        if all_of_them is not None:
            values[part] = all_of_them
        else:
            values[unknown] = _parse_others(text, begins, ends, unknown)
    return values


def _parse_block(padded: Array, begins: Array, ends: Array) -> tuple[Array, Array | None]:
    """The values, and which of them are right; None where all are."""
    first = padded[begins]
    negative = first == 45
    signed = negative | (first == 43)
    dots = _find_dots(padded, begins, ends)
    whole_length = dots - begins
    whole_length -= signed
    fraction_length = np.maximum(ends - dots - 1, 0)
    whole, whole_fine = _load_digits(padded, dots, whole_length)
    fraction, fraction_fine = _load_digits(padded, ends, fraction_length)
    np.minimum(fraction_length, _PAD, out=fraction_length)
    whole *= _INTEGER_POWERS[fraction_length]
    whole += fraction
    values = whole / _POWERS_OF_TEN[fraction_length]
    np.negative(values, out=values, where=negative)
    lengths = whole_length + fraction_length
    if whole_fine is fraction_fine is None and whole.max() < 1 << 53 and lengths.min() > 0:
        return values, None
    known = (whole < 1 << 53) & (lengths > 0)
    for fine in (whole_fine, fraction_fine):
        known &= True if fine is None else fine
    return values, known


def _find_dots(padded: Array, begins: Array, ends: Array) -> Array:
    """Where each token has its point; a token without one gets its end."""
    low = int(begins[0])
    found = np.flatnonzero(padded[low : int(ends[-1])] == 46)
    found += low
    if len(found) == len(begins) and (found >= begins).all() and (found < ends).all():
        return found
    dots: Array = ends.copy()
    # Of two points in one token the later one wins, and the other is found to be no digit.
    token = np.searchsorted(begins, found, "right") - 1
    inside = found < ends[token]
    dots[token[inside]] = found[inside]
    return dots


def _load_digits(padded: Array, ends: Array, lengths: Array) -> tuple[Array, Array | None]:
    """Integers of up to eight digits that end at `ends`; which are just that, None for all."""
    digits = np.ndarray((len(padded) - _PAD + 1,), "<u8", padded, strides=(1,))[ends - _PAD]
    digits ^= _ZEROS
    shortest, longest = int(lengths.min()), int(lengths.max())
    # The first byte is the lowest: zeros come in where the bytes before the digits go out.
    if not shortest == longest == _PAD:
        shift = ((_PAD - np.clip(lengths, 1, _PAD)) << 3).view(np.uint64)
        digits >>= shift
        digits <<= shift
    if shortest <= 0:
        digits[lengths <= 0] = 0
    fine = None
    if shortest < 0 or longest > _PAD or digits.view(np.uint8).max() > 9:
        fine = (digits.view(np.uint8).reshape(-1, 8) <= 9).all(axis=1)
        fine &= (lengths >= 0) & (lengths <= _PAD)
    for factor, bits, mask in _STEPS:
        digits *= factor
        digits >>= bits
        digits &= mask
    return digits.view(np.int64), fine


def _parse_run(text: Array, begins: Array, ends: Array) -> Array | None:
    """What numpy reads from the text at a go; None where that is not just these tokens."""
    run = text[begins[0] : ends[-1]].copy()
    run[(run == ord(",")) | (run == ord(";"))] = ord(" ")
    if np.count_nonzero(run > ord(" ")) != int((ends - begins).sum()):
        return None  # other columns stand between
    with warnings.catch_warnings():
        # It warns where it stops before the end. Where it does not, each token gave a number or
        # more, as "1-2" does, so that the count shows whether each gave one.
        warnings.simplefilter("error", DeprecationWarning)
        try:
            values = np.fromstring(run.tobytes(), sep=" ")
        except (ValueError, DeprecationWarning):
            return None
    return values if len(values) == len(begins) else None


def _parse_others(text: Array, begins: Array, ends: Array, which: Array) -> Array:
    """What numpy makes of the tokens as strings, which is what `float` makes of them."""
    lengths = ends[which] - begins[which]
    longest = int(lengths.max())
    if len(which) > 8 and 0 < longest < _LONGEST and lengths.min() > 0:
        columns = np.arange(longest)
        at = np.minimum(begins[which][:, None] + columns, len(text) - 1)
        cells = np.where(columns < lengths[:, None], text[at], np.uint8(0))
        if not (cells == ord("_")).any():
            try:
                return cells.view(f"S{longest}").reshape(-1).astype(np.float64)
            except ValueError:
                pass  # the loop below finds out which one it is
    return np.array([_parse_one(text, begins, ends, int(i)) for i in which])


def _parse_one(text: Array, begins: Array, ends: Array, i: int) -> float:
    token = text[begins[i] : ends[i]].tobytes()
    try:
        if b"_" in token:  # Python's own digit separator, which no file means
            raise ValueError
        return float(token)
    except ValueError as error:
        raise NotANumberError(i, token.decode("utf-8", "replace")) from error
