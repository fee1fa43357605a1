"""Views of the page: themes, narrow windows, keyboard, names for screen readers, no WebGL."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.web.browser import Page

ACTIVE = "document.activeElement.id || document.activeElement.name"


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_both_themes_show_the_cloud_on_their_own_background(
    page: Page, address: str, dark: bool, tmp_path: Path
) -> None:
    page.set_theme(dark=dark)
    page.open_idle(address)
    page.wait_for_pixels(lambda left, right: left > 10_000 and right > 4_000)
    (tmp_path / "page.png").write_bytes(page.screenshot())
    picture = np.asarray(Image.open(tmp_path / "page.png").convert("L"))
    # Most of a page is background.
    assert (np.median(picture) < 40) if dark else (np.median(picture) > 215)
    page.set_theme(dark=False)


@pytest.mark.parametrize("width", [320, 768])
def test_a_narrow_window_needs_no_scrolling_sideways(page: Page, address: str, width: int) -> None:
    page.resize(width, 740)
    try:
        page.open_idle(address)
        page.wait_for_pixels(lambda left, right: left > 1_000 and right > 1_000)
        assert page.script("return document.documentElement.scrollWidth") == width
        tops = page.script(
            "return ['canvas', 'm', 'downloads', 'sentence'].map((id) => "
            "document.getElementById(id).getBoundingClientRect().top)"
        )
        assert tops == sorted(tops), "the samples are below the picture, the facts are last"
    finally:
        page.resize(1280, 800)


def test_every_control_has_a_name(page: Page, address: str) -> None:
    roles = {"button", "slider", "spinbutton", "radio", "combobox", "textbox", "image"}
    page.open_idle(address)
    nodes = page.cdp("Accessibility.getFullAXTree")["nodes"]
    controls = [n for n in nodes if not n["ignored"] and n["role"]["value"] in roles]
    assert len(controls) > 20
    assert [n for n in controls if not n.get("name", {}).get("value")] == []


def test_the_keyboard_alone_is_enough(page: Page, address: str) -> None:
    def press(key: str, code: int) -> None:
        for kind in ("keyDown", "keyUp"):
            page.cdp("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code)

    page.open_idle(address)
    visited = []
    for _ in range(30):
        press("Tab", 9)
        visited.append(page.script(f"return {ACTIVE}"))
        if visited[-1] == "canvas":
            break
    expected = {"theme", "choose", "street", "method", "m", "start", "compare", "nonfinite"}
    assert expected | {"color", "permalink", "canvas"} <= {*visited}
    page.script("document.getElementById('m').focus()")
    press("ArrowLeft", 37)
    page.wait_for("Number(document.getElementById('m-number').value) < 4096")


def test_keys_turn_the_view_and_a_link_brings_it_back(page: Page, address: str) -> None:
    page.open_idle(address)
    home = _picture(page)
    for key in ("ArrowRight", "ArrowUp", "+"):
        event = f"new KeyboardEvent('keydown', {{ key: '{key}' }})"
        page.script(f"document.getElementById('canvas').dispatchEvent({event})")
    page.wait_for("location.hash.includes('camera=')")
    turned = _picture(page)
    page.open_idle(address, page.script("return location.hash.slice(1)"))
    again = _picture(page)
    moved = (home != turned).mean()
    assert moved > 0.02
    # The link has four digits of a position.
    assert (again != turned).mean() < moved / 5
    page.element("reset").click()
    page.wait_for("!location.hash.includes('camera=')")


def _picture(page: Page) -> np.ndarray:
    """The canvas in gray, once it shows every point and no longer changes."""
    page.wait_for("document.getElementById('canvas').dataset.drawn === '122485'")
    page.wait_for("new Promise((done) => setTimeout(() => requestAnimationFrame(done), 300))")
    page.wait_for("document.getElementById('canvas').dataset.drawn === '122485'")
    return np.asarray(page.canvas().convert("L"), np.int16)


def test_without_webgl_the_page_shows_a_message_and_samples(page: Page, address: str) -> None:
    source = "HTMLCanvasElement.prototype.getContext = () => null"
    script = page.cdp("Page.addScriptToEvaluateOnNewDocument", source=source)
    try:
        page.open_idle(address)
        assert "no WebGL" in page.element("no-webgl").text
        assert len(page.download_array("indices")) == 4096
    finally:
        page.cdp("Page.removeScriptToEvaluateOnNewDocument", **script)
