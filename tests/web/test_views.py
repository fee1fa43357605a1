"""The encoder, the server's tab, both themes, narrow windows, and what a screen reader is told."""

import base64
import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.support.clouds import DATA
from tests.web.browser import Page

import farpoint
from farpoint.io import read_cloud

ACTIVE = "document.activeElement.id || document.activeElement.name"


def test_the_encoder_shows_its_stages_and_what_a_sample_stands_for(
    page: Page, address: str, client: farpoint.Client
) -> None:
    page.open(address, "tab=encode&m=500")
    page.wait_for("document.getElementById('link').dataset.state === 'online'")
    page.drop(DATA / "milk.pcd")
    page.wait_for("!document.getElementById('run').disabled")
    page.wait_for("document.getElementById('busy').textContent === ''")
    page.element("run").click()
    page.wait_for("document.querySelectorAll('#stages label').length === 4")
    page.script("document.querySelectorAll('#stages input')[2].click()")
    cloud = read_cloud(DATA / "milk.pcd")
    stage = client.encode(cloud.points.astype(np.float32)).stages[2]
    page.wait_for(
        f"document.getElementById('caption-sample').textContent.endsWith('{len(stage.indices)}')"
    )
    page.wait_for_pixels(lambda left, right: left > 1000 and right > 100)
    page.element("pick").send_keys("3")
    page.wait_for("document.getElementById('pick-hint').textContent.startsWith('Row')")
    # The server's count; another number follows it where the page finds other points for it.
    assert f"stands for {stage.counts[3]:,} points; " in page.text("pick-hint")


def test_the_tab_of_the_server_is_live(page: Page, address: str) -> None:
    page.open(address, "tab=server")
    rows = "[...document.querySelectorAll('#server tbody tr')].map((row) => row.textContent)"
    page.wait_for(f"{rows}.some((text) => text.startsWith('GetServerInfo'))")
    page.wait_for("document.querySelectorAll('#server .chart .line').length >= 5")
    assert "farpoint-server" in page.text("server")
    assert "density_small" in page.text("server")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_both_themes_show_the_cloud_on_their_own_background(
    page: Page, address: str, dark: bool, tmp_path: Path
) -> None:
    page.set_theme(dark=dark)
    page.open(address, "cloud=street&m=4096")
    page.wait_for_sample(4096)
    page.wait_for_pixels(lambda left, right: left > 20_000 and right > 4_000)
    (tmp_path / "page.png").write_bytes(page.screenshot())
    picture = np.asarray(Image.open(tmp_path / "page.png").convert("L"))
    # Most of a page is background.
    assert (np.median(picture) < 40) if dark else (np.median(picture) > 215)
    page.set_theme(dark=False)


def test_a_narrow_window_needs_no_scrolling_sideways(page: Page, address: str) -> None:
    page.resize(360, 740)
    try:
        page.open(address, "cloud=street")
        page.wait_for_sample(4096)
        page.wait_for_pixels(lambda left, right: left > 2_000 and right > 2_000)
        assert page.script("return document.documentElement.scrollWidth") == 360
    finally:
        page.resize(1280, 800)


def test_every_control_has_a_name(page: Page, address: str) -> None:
    roles = {"button", "slider", "spinbutton", "radio", "tab", "combobox", "textbox", "image"}
    for tab in ("sample", "encode", "server"):
        page.open(address, f"cloud=street&tab={tab}")
        page.wait_for("document.getElementById('busy').textContent === ''")
        nodes = page.cdp("Accessibility.getFullAXTree")["nodes"]
        controls = [n for n in nodes if not n["ignored"] and n["role"]["value"] in roles]
        assert len(controls) > 3
        assert [n for n in controls if not n.get("name", {}).get("value")] == []


def test_the_keyboard_alone_is_enough(page: Page, address: str) -> None:
    def press(key: str, code: int) -> None:
        for kind in ("keyDown", "keyUp"):
            page.cdp("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code)

    page.open(address)
    page.wait_for("document.getElementById('link').dataset.state === 'online'")
    visited = []
    for _ in range(30):
        press("Tab", 9)
        visited.append(page.script(f"return {ACTIVE}"))
        if visited[-1] == "empty-street":
            break
    assert {"tab-sample", "theme", "choose", "m", "start", "nonfinite", "color"} <= {*visited}
    page.cdp(
        "Input.dispatchKeyEvent", type="keyDown", key="Enter", text="\r", windowsVirtualKeyCode=13
    )
    page.wait_for_sample(4096)
    page.script("document.getElementById('m').focus()")
    press("ArrowLeft", 37)
    page.wait_for("Number(document.getElementById('m-number').value) < 4096")
    page.script("document.getElementById('canvas').focus()")
    before = page.script("return document.getElementById('canvas').toDataURL()")
    press("ArrowRight", 39)
    page.wait_for(f"document.getElementById('canvas').toDataURL().length !== {len(before)}")


def _picture(page: Page) -> np.ndarray:
    """Red, green and blue of the canvas, once the page has drawn all that it wants to."""
    page.wait_for("document.getElementById('busy').textContent === ''")
    page.wait_for("document.getElementById('canvas').dataset.drawn === '122485'")
    page.wait_for("!document.getElementById('legend').hidden")
    page.wait_for("new Promise((done) => setTimeout(() => requestAnimationFrame(done), 300))")
    data = page.script("return document.getElementById('canvas').toDataURL()")
    content = base64.b64decode(data.partition(",")[2])
    return np.asarray(Image.open(io.BytesIO(content)).convert("RGB"), np.int16)


def _open_street(page: Page, address: str, settings: str) -> np.ndarray:
    page.open(address, f"cloud=street&m=4096&{settings}")
    page.wait_for("document.getElementById('link').dataset.state === 'online'")
    return _picture(page)


@pytest.mark.parametrize("layout", ["beside", "over"])
def test_the_processor_draws_what_webgl_draws(page: Page, address: str, layout: str) -> None:
    card, processor = (
        _open_street(page, address, f"layout={layout}&renderer={renderer}")
        for renderer in ("webgl", "cpu")
    )
    points = (card != card[0, 0]).any(axis=2)
    assert points.mean() > 0.05
    differ = (np.abs(card - processor) > 8).any(axis=2)
    # Edges of points that lie on the border between two pixels.
    assert differ.sum() < 0.05 * points.sum()


def test_without_a_graphics_card_the_processor_draws(page: Page, address: str) -> None:
    _open_street(page, address, "")
    assert page.script("return document.getElementById('canvas').getContext('2d') !== null")


def test_a_link_brings_the_view_back(page: Page, address: str) -> None:
    home = _open_street(page, address, "")
    for key in ("ArrowRight", "ArrowUp", "+"):
        event = f"new KeyboardEvent('keydown', {{ key: '{key}' }})"
        page.script(f"document.getElementById('canvas').dispatchEvent({event})")
    page.wait_for("location.hash.includes('camera=')")
    turned = _picture(page)
    fragment = page.script("return location.hash.slice(1)")
    page.open(address, fragment)
    again = _picture(page)
    moved = (home != turned).any(axis=2).mean()
    assert moved > 0.05
    # The link has a tenth of a degree.
    assert (again != turned).any(axis=2).mean() < moved / 5
    page.element("reset").click()
    page.wait_for("!location.hash.includes('camera=')")
