"""Pictures of results in notebooks."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest

from farpoint._svg import COLORS, MARGIN, MAX_POINTS, SIDE, figure
from farpoint.models import Encoding, Stage
from farpoint.results import StreamedSample, Timings

CLOUD = np.random.default_rng(3).normal(size=(400, 3))


def dots(html: str) -> list[tuple[float, float, str]]:
    """Pixels and color of each dot of the only picture."""
    [svg] = ElementTree.fromstring(html).iter("{http://www.w3.org/2000/svg}svg")
    return [
        (float(x), float(y), path.attrib["stroke"])
        for path in svg
        for x, y in re.findall(r"M(-?[\d.]+) (-?[\d.]+)h0", path.attrib["d"])
    ]


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i4"])
def test_every_point_is_a_dot_within_the_picture(dtype):
    drawn = dots(figure((CLOUD * 100).astype(dtype), "caption"))
    assert len(drawn) == len(CLOUD)
    pixels = np.array([(x, y) for x, y, _ in drawn])
    assert pixels.min() >= MARGIN - 0.1
    assert pixels.max() <= SIDE - MARGIN + 0.1
    assert np.ptp(pixels, axis=0).max() == pytest.approx(SIDE - 2 * MARGIN, abs=0.2)


def test_what_is_higher_is_further_up_and_has_a_later_color():
    line = np.stack([np.zeros(6), np.zeros(6), np.arange(6.0)], axis=1)
    drawn = sorted(dots(figure(line, "")), key=lambda dot: -dot[1])
    assert [color for _, _, color in drawn] == list(COLORS)


@pytest.mark.parametrize(
    "points",
    [
        np.zeros((1, 3)),
        np.full((5, 3), 1e300),
        np.array([[1.7e308] * 3, [-1.7e308] * 3]),
        np.array([[5e-324] * 3, [0.0] * 3]),
        CLOUD + np.array([500_000, 5_000_000, 0]),
    ],
    ids=["one", "equal", "huge", "tiny", "map"],
)
def test_no_extent_is_too_small_or_too_large(points):
    drawn = dots(figure(points, ""))
    assert len(drawn) == len(points)
    assert all(0 <= value <= SIDE for x, y, _ in drawn for value in (x, y))


def test_rows_that_are_not_finite_are_left_out_and_large_samples_are_thinned():
    assert len(dots(figure(np.array([[0, 0, 0], [np.nan, 0, 0], [0, np.inf, 0]]), ""))) == 1
    assert dots(figure(np.full((3, 3), np.nan), "")) == []
    assert len(dots(figure(np.random.default_rng(0).random((100_000, 3)), ""))) == MAX_POINTS


def test_captions_are_text():
    assert "<b>" not in figure(CLOUD, "<b>")


def test_results_show_their_points(client, cloud):
    sample = client.sample(cloud, 40)
    assert len(dots(sample._repr_html_())) == 40
    assert f"covering radius {sample.covering_radius:.6g}" in sample._repr_html_()
    assert StreamedSample(0, sample, None)._repr_html_() == sample._repr_html_()
    assert StreamedSample(0, None, ValueError())._repr_html_() is None


def test_an_encoding_shows_its_stages():
    stages = tuple(
        Stage(np.arange(m), CLOUD[:m], np.zeros((m, 8), "f4"), np.ones(m, int), np.zeros(m, "f4"))
        for m in (30, 10)
    )
    html = Encoding("encoder", stages, Timings(0, 0, 0, 0, 0), "id")._repr_html_()
    figures = [f"{part}</figure>" for part in html.split("</figure>")[:-1]]
    assert [len(dots(part)) for part in figures] == [30, 10]
    assert "10 points, 8 features each" in figures[1]
