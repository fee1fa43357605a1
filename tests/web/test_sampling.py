"""Sampling on the page: the example scan, dropped scans, methods, downloads."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.web.browser import Page

import farpoint
from farpoint.io import read_cloud


@pytest.fixture
def street(page: Page, address: str, scan: Path) -> Page:
    """The page with the scan on it and 2000 samples chosen."""
    page.open_idle(address)
    page.set_samples(2000)
    page.drop(scan)
    page.wait_for("document.getElementById('cloud-name').textContent.endsWith('.npy')")
    page.wait_for_sample(2000)
    page.wait_for_idle()
    return page


def _radius(page: Page) -> float:
    """The covering radius in the sentence, once it is known."""
    text = page.wait_for(
        "(/than ([\\d.,]+)/.exec(document.getElementById('sentence').textContent) ?? [])[1]"
    )
    return float(text.replace(",", ""))


def test_the_page_opens_with_a_sample_of_the_example_scan(page: Page, address: str) -> None:
    page.open_idle(address)
    pattern = r"4,096 of 118,389 points; no point is farther than 0\.\d+ m from one of them\."
    assert re.fullmatch(pattern, page.text("sentence").replace("\xa0", " "))
    page.wait_for_pixels(lambda left, right: left > 10_000 and right > 4_000)


def test_a_dropped_scan_and_its_sample_are_drawn(street: Page) -> None:
    street.wait_for_pixels(lambda left, right: left > 10_000 and right > 2_000)
    assert "26,912 points" in street.text("cloud-facts")


def test_the_slider_changes_the_picture_without_another_call(street: Page) -> None:
    calls = "performance.getEntriesByType('resource').filter((e) => e.name.endsWith('/Sample'))"
    before = street.wait_for(f"{calls}.length")
    _, few = street.wait_for_pixels(lambda _, right: right > 0)
    slider = street.element("m")
    street.script("arguments[0].value = 1000", slider)
    street.script("arguments[0].dispatchEvent(new Event('input'))", slider)
    street.wait_for_sample(26_912)
    street.wait_for_pixels(lambda _, right: right > 1.1 * few)
    assert _radius(street) == 0
    street.set_samples(1)
    street.wait_for_pixels(lambda _, right: 0 < right < few / 20)
    assert street.wait_for(f"{calls}.length") == before


def test_downloads_are_what_the_client_gets(
    street: Page, client: farpoint.Client, scan: Path
) -> None:
    cloud = read_cloud(scan)
    expected = client.sample(cloud.points, 2000, nonfinite="ignore")
    np.testing.assert_array_equal(street.download_array("indices"), expected.indices)
    points = street.download_array()
    assert points.dtype == np.float32
    np.testing.assert_array_equal(points, expected.points)
    intensity = cloud.attributes["intensity"][expected.indices]

    path = street.downloads / "street_part-2000.ply"
    street.download("ply")
    written = read_cloud(path)
    np.testing.assert_array_equal(written.points, expected.points)
    np.testing.assert_array_equal(written.attributes["intensity"], intensity)


def test_the_covering_radius_and_its_curve_are_those_of_the_sample(
    street: Page, client: farpoint.Client, scan: Path
) -> None:
    radius = client.sample(read_cloud(scan).points, 2000).covering_radius
    assert _radius(street) == pytest.approx(radius, rel=0.005)
    label = street.script("return document.querySelector('#curve svg').getAttribute('aria-label')")
    assert float(label.split("at 2,000 it is ")[1]) == pytest.approx(radius, rel=0.005)


METHODS: dict[str, tuple[dict[str, float], Any, int | None]] = {
    "poisson": ({"radius": 0.5}, farpoint.PoissonDisk(0.5), None),
    "voxel": ({"voxel": 0.75}, farpoint.VoxelGrid(0.75), None),
    "random": ({}, farpoint.RandomSampling(seed=0), 2000),
}


@pytest.mark.parametrize("name", METHODS)
def test_each_method_gives_the_rows_that_the_client_gets(
    street: Page, client: farpoint.Client, scan: Path, name: str
) -> None:
    fields, method, samples = METHODS[name]
    street.enter("method", name)
    for field, value in fields.items():
        assert street.element(field).is_displayed()
        street.enter(field, value)
    street.wait_for_idle()
    expected = client.sample(read_cloud(scan).points, samples, method=method)
    np.testing.assert_array_equal(street.download_array("indices"), expected.indices)


def test_two_methods_are_compared_side_by_side(street: Page) -> None:
    street.enter("compare", "random")
    street.wait_for("document.getElementById('caption-cloud').textContent.startsWith('Random')")
    assert street.text("caption-cloud") == "Random rows · 2,000"
    left, right = street.wait_for_pixels(lambda left, right: right > 2_000 > 0 < left)
    assert left < 4 * right, "the left picture has a sample and not the cloud"
