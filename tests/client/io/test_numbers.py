"""Numbers in text: bit for bit what `float` makes of them, or refused as `float` refuses them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from farpoint.io.numbers import parse_table

NUMBERS = st.one_of(
    st.integers(-(10**18), 10**18).map(str),
    st.floats().map(repr),
    st.tuples(st.floats(-1e9, 1e9), st.integers(0, 12)).map(lambda v: f"{v[0]:.{v[1]}f}"),
    st.floats(allow_nan=False).map(lambda v: f"{v:.18e}"),
    st.sampled_from([".5", "5.", "-.25", "+7", "1e5", "-0", "-0.0", "00012.500", "NaN", "-inf"]),
)


def bits(values: np.ndarray) -> list[int]:
    """A NaN has no sign in text."""
    return np.where(np.isnan(values), np.nan, values).view("u8").tolist()


@given(st.lists(NUMBERS, min_size=1, max_size=60))
@settings(deadline=None)
def test_every_number_is_what_float_says(words):
    expected = bits(np.array([float(word) for word in words]))
    assert bits(parse_table([word.encode() for word in words])[:, 0]) == expected
    assert bits(parse_table([",".join(words).encode()], ",")[0]) == expected


@given(st.text("0123456789+-.eE_x,infa", min_size=1, max_size=12))
@settings(deadline=None)
def test_every_word_is_refused_that_float_refuses(word):
    try:
        expected = bits(np.array([float(word.replace("_", "x"))]))  # separators are Python's own
    except ValueError:
        with pytest.raises(ValueError, match="of point 0 is no number"):
            parse_table([word.encode()])
    else:
        assert bits(parse_table([word.encode()])[0]) == expected


def test_the_error_names_the_point():
    lines = [b"1.5 2"] * 40_000
    lines[33_333] = b"1.5.1 2"
    with pytest.raises(ValueError, match=r"'1\.5\.1' of point 33333 is no number"):
        parse_table(lines)
    lines[33_333] = b"1 2 3"
    with pytest.raises(ValueError, match="point 33333 has 3 columns, the first one 2"):
        parse_table(lines)
