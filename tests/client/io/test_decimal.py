"""Numbers in text: bit for bit what `float` makes of them, or refused as `float` refuses them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from farpoint.io.formats.text.decimal import NotANumberError, parse_decimals
from farpoint.io.formats.text.lines import find_tokens

NUMBERS = st.one_of(
    st.integers(-(10**18), 10**18).map(str),
    st.floats().map(repr),
    st.tuples(st.floats(-1e9, 1e9), st.integers(0, 12)).map(lambda v: f"{v[0]:.{v[1]}f}"),
    st.floats(allow_nan=False).map(lambda v: f"{v:.18e}"),
    st.sampled_from([".5", "5.", "-.25", "+7", "1e5", "-0", "-0.0", "00012.500", "NaN", "-inf"]),
)


def parse(words: list[str]) -> np.ndarray:
    text = np.frombuffer(" \n".join(words).encode(), np.uint8)
    tokens = find_tokens(text, 0, len(text))
    assert len(tokens) == len(words)
    return parse_decimals(text, tokens.begins, tokens.ends)


@given(st.lists(NUMBERS, min_size=1, max_size=60))
@settings(deadline=None)
def test_every_number_is_what_float_says(words):
    expected = np.array([float(word) for word in words])
    assert np.array_equal(parse(words).view("u8"), expected.view("u8")) or np.array_equal(
        np.nan_to_num(parse(words), nan=7e77), np.nan_to_num(expected, nan=7e77)
    )


@given(
    st.text("0123456789+-.eE_x, infa", min_size=1, max_size=12).map(lambda t: t.replace(" ", ""))
)
@settings(deadline=None, max_examples=400)
def test_every_word_is_refused_that_float_refuses(word):
    word = word or "x"
    try:
        expected = float(word.replace("_", "x"))  # digit separators are Python's own
    except ValueError:
        with pytest.raises(NotANumberError):
            parse([word])
    else:
        found = parse([word])[0]
        assert found == expected or (np.isnan(found) and np.isnan(expected))


def test_the_error_says_which_token():
    words = ["1.5"] * 40_000
    words[33_333] = "1.5.1"
    with pytest.raises(NotANumberError, match=r"'1\.5\.1'") as raised:
        parse(words)
    assert raised.value.token == 33_333


@pytest.mark.parametrize("separator", [" ", ",", ";", ", "])
@pytest.mark.parametrize("form", ["{!r}", "{:.18e}"])
def test_many_long_numbers_of_one_kind(separator, form):
    numbers = np.random.default_rng(0).normal(size=50_000) * 1e3
    words = [form.format(float(number)) for number in numbers]
    text = np.frombuffer(separator.join(words).encode(), np.uint8)
    tokens = find_tokens(text, 0, len(text), ord(separator[0]))
    expected = np.array([float(word) for word in words])
    assert np.array_equal(parse_decimals(text, tokens.begins, tokens.ends), expected)


@pytest.mark.parametrize("wrong", ["1.5e-3.1", "1e-3-2e-3"])
def test_an_error_among_long_numbers_is_found(wrong):
    words = ["1.5e-3"] * 500
    words[333], words[-1] = wrong, "x"  # one number too many, and one too few
    with pytest.raises(NotANumberError) as raised:
        parse(words)
    assert raised.value.token == 333
