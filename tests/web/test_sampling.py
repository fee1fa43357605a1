"""A scan that is dropped on the page, its sample, and what is downloaded of it."""

import csv
import io
from pathlib import Path

import numpy as np
import pytest
from tests.support.browser import Page

import farpoint
from farpoint.io import read_cloud

# Different colors in the left half of the canvas.
COLORS = """(() => {
  const canvas = document.getElementById("canvas"), copy = document.createElement("canvas");
  [copy.width, copy.height] = [canvas.width / 2 - 1, canvas.height];
  const flat = copy.getContext("2d");
  flat.drawImage(canvas, 0, 0);
  const bytes = flat.getImageData(0, 0, copy.width, copy.height).data;
  return new Set(new Uint32Array(bytes.buffer)).size;
})()"""


@pytest.fixture
def street(page: Page, address: str, scan: Path) -> Page:
    """The page with the scan on it and 2000 samples chosen."""
    page.open(address, "m=2000")
    page.wait_for("document.getElementById('link').dataset.state === 'online'")
    page.drop(scan)
    page.wait_for_sample(2000)
    return page


def test_a_dropped_scan_is_seen_and_so_is_its_sample(street: Page) -> None:
    left, right = street.wait_for_pixels(lambda left, right: left > 10_000 and right > 2_000)
    assert left > right
    assert "26,912 points" in street.text("cloud-facts")


def test_the_slider_changes_the_picture_without_another_call(street: Page) -> None:
    calls = "performance.getEntriesByType('resource').filter((e) => e.name.endsWith('/Sample'))"
    before = street.wait_for(f"{calls}.length")
    _, few = street.wait_for_pixels(lambda _, right: right > 0)
    slider = street.element("m")
    street.script("arguments[0].value = 1000", slider)
    street.script("arguments[0].dispatchEvent(new Event('input'))", slider)
    street.wait_for_sample(26_912)
    street.wait_for_pixels(lambda _, right: right > 2 * few)
    assert street.text("radius") == "0"
    street.set_samples(1)
    street.wait_for_pixels(lambda _, right: 0 < right < few / 20)
    assert street.wait_for(f"{calls}.length") == before


def test_downloads_are_what_the_client_gets(
    street: Page, client: farpoint.Client, scan: Path
) -> None:
    cloud = read_cloud(scan)
    expected = client.sample(cloud.points, 2000, nonfinite="ignore")
    np.testing.assert_array_equal(street.download_array("rows"), expected.indices)
    points = street.download_array()
    assert points.dtype == np.float32
    np.testing.assert_array_equal(points, expected.points)
    intensity = cloud.attributes["intensity"][expected.indices]

    path = street.downloads / "street_kitti_part-2000.ply"
    street.download("ply")
    written = read_cloud(path)
    np.testing.assert_array_equal(written.points, expected.points)
    np.testing.assert_array_equal(written.attributes["intensity"], intensity)

    table = list(csv.DictReader(io.StringIO(street.download("csv").decode())))
    assert [int(line["row"]) for line in table] == expected.indices.tolist()
    for axis, column in zip("xyz", expected.points.T, strict=True):
        values = np.array([line[axis] for line in table], np.float32)
        np.testing.assert_array_equal(values, column)


def test_the_covering_radius_and_its_curve_are_those_of_the_sample(
    street: Page, client: farpoint.Client, scan: Path
) -> None:
    radius = client.sample(read_cloud(scan).points, 2000).covering_radius
    assert float(street.text("radius")) == pytest.approx(radius, rel=0.005)
    label = street.script("return document.querySelector('#curve svg').getAttribute('aria-label')")
    assert f"at 2,000 it is {street.text('radius')}" in label


def test_another_start_is_another_sample(street: Page, client: farpoint.Client, scan: Path) -> None:
    start = street.element("start")
    street.script("arguments[0].value = 777", start)
    street.script("arguments[0].dispatchEvent(new Event('change'))", start)
    street.wait_for("document.getElementById('busy').textContent === ''")
    expected = client.sample(read_cloud(scan).points, 2000, start=777)
    np.testing.assert_array_equal(street.download_array("rows"), expected.indices)


def test_each_point_has_the_color_of_its_nearest_sample(street: Page) -> None:
    street.set_samples(8)
    street.choose("color", "cell")
    # Eight cells, if all are in view, and the background.
    street.wait_for(f"{COLORS} <= 9 && {COLORS} > 3")
    street.choose("color", "height")
    street.wait_for(f"{COLORS} > 50")


def test_a_link_brings_the_settings_back(street: Page, address: str) -> None:
    street.choose("layout", "over")
    street.wait_for("location.hash.includes('layout=over')")
    fragment = street.script("return location.hash.slice(1)")
    street.open(address, fragment)
    assert "street_kitti_part.bin" in street.wait_for_message()
    assert street.script("return document.querySelector('[name=layout][value=over]').checked")
    assert street.element("m-number").get_attribute("value") == "2000"
