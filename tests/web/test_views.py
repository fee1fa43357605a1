"""The encoder, the server's tab, both themes, narrow windows, and what a screen reader is told."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.support.browser import Page
from tests.support.clouds import DATA

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
