"""Views of the page: themes, narrow windows, keyboard, names for screen readers, no WebGL."""

import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.support.servers.server_process import wait_until
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
    assert len(controls) > 10
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
    expected = {"choose", "street", "method", "m", "compare", "color", "canvas"}
    assert expected <= {*visited}
    page.script("document.getElementById('m').focus()")
    press("ArrowLeft", 37)
    page.wait_for("Number(document.getElementById('m-number').value) < 4096")


def test_keys_turn_the_view_and_reset_brings_it_back(page: Page, address: str) -> None:
    page.open_idle(address)
    home = _picture(page)
    for _ in range(5):
        event = "new KeyboardEvent('keydown', { code: 'ArrowRight', shiftKey: true })"
        page.script(f"document.getElementById('canvas').dispatchEvent({event})")
    assert (home != _picture(page)).mean() > 0.02
    page.element("reset").click()
    assert (home == _picture(page)).all()


def _picture(page: Page) -> np.ndarray:
    """The canvas in gray, once it no longer changes."""
    seen = [page.canvas()]

    def rests() -> bool:
        time.sleep(0.3)  # longer than the page waits before it draws every point
        seen.append(page.canvas())
        return seen[-1] == seen[-2]

    wait_until(rests)
    return np.asarray(seen[-1].convert("L"), np.int16)


def test_without_webgl_the_page_shows_a_message_and_samples(page: Page, address: str) -> None:
    source = "HTMLCanvasElement.prototype.getContext = () => null"
    script = page.cdp("Page.addScriptToEvaluateOnNewDocument", source=source)
    try:
        page.open_idle(address)
        assert "no WebGL" in page.element("no-webgl").text
        assert len(page.download_array("indices")) == 4096
    finally:
        page.cdp("Page.removeScriptToEvaluateOnNewDocument", **script)
