"""Every format that the page reads gives the rows that the client reads; the others a sentence."""

from pathlib import Path

import numpy as np
import pytest
from tests.support.clouds import DATA
from tests.web.browser import Page

import farpoint
from farpoint.io import read_cloud

SUFFIXES = {".csv", ".npy", ".pcd", ".ply"}
READ = sorted(p.name for p in DATA.iterdir() if p.suffix in SUFFIXES)


@pytest.fixture(scope="module")
def opened(browser: Page, address: str) -> Page:
    browser.open_idle(address)
    browser.set_samples(200)
    return browser


@pytest.mark.parametrize("name", READ)
def test_a_file_is_read_as_the_client_reads_it(
    opened: Page, client: farpoint.Client, name: str
) -> None:
    opened.drop(DATA / name)
    opened.wait_for(f"document.getElementById('cloud-name').textContent === '{name}'")
    opened.wait_for_sample(200)
    cloud = read_cloud(DATA / name)
    expected = client.sample(cloud.points, 200, nonfinite="ignore")
    np.testing.assert_array_equal(opened.download_array("indices"), expected.indices)
    points = opened.download_array()
    assert points.dtype == cloud.points.dtype
    np.testing.assert_array_equal(points, expected.points)


def _bad() -> dict[str, bytes]:
    return {
        "scan.e57": b"ASTM-E57",
        "simple.las": (DATA / "simple.las").read_bytes(),
        "cut.pcd": (DATA / "milk.pcd").read_bytes()[:5000],
        "cut.ply": (DATA / "vehicle_lidar_part.ply").read_bytes()[:5000],
        "words.csv": b"x,y,z\n1,2,three\n",
        "flat.csv": b"x,y\n1,2\n",
        "empty.ply": b"",
        "huge.ply": b"ply\nformat binary_little_endian 1.0\nelement vertex 4000000000\n"
        b"property float x\nproperty float y\nproperty float z\nend_header\n\0\0\0\0",
        "picture.png": b"\x89PNG",
        "nowhere.xyz": b"nan nan nan\nnan nan nan\n",
    }


def test_a_bad_file_is_one_sentence_and_the_page_goes_on(opened: Page, tmp_path: Path) -> None:
    before = ""
    for name, content in _bad().items():
        (tmp_path / name).write_bytes(content)
        opened.drop(tmp_path / name)
        message = opened.wait_for_message(without=before)
        assert message.endswith("."), message
        assert message.count(". ") == 0, message
        assert "undefined" not in message
        assert "Error" not in message
        assert ("farpoint sample" in message) == (name in ("simple.las", "scan.e57"))
        before = message
    opened.drop(DATA / "lamppost.pcd")
    opened.wait_for_sample(200)
    assert opened.message() == ""
    assert opened.complaints() == []


def test_rows_that_are_not_finite_are_counted_and_skipped(opened: Page) -> None:
    opened.drop(DATA / "office_kinect_part.pcd")
    opened.wait_for("document.getElementById('cloud-facts').textContent.includes(': 798.')")
