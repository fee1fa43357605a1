"""Command that draws docs/images/page_*.png: the page in both themes, as a browser shows it.

    python -m tests.web.pictures

Wants Chromium and ChromeDriver, as the tests of the page do.
"""

import io
import tempfile
from collections.abc import Callable
from pathlib import Path

from PIL import Image
from tests.support.browser import Page
from tests.support.servers.server_process import RunningServer

IMAGES = Path("docs") / "images"


def main() -> None:
    server = RunningServer("--http-listen", "127.0.0.1:0")
    address = server.wait_for(lambda line: line["event"] == "ready")["http_address"]
    with tempfile.TemporaryDirectory() as folder:
        page = Page(Path(folder), size=(1440, 900))
        try:
            _draw(page, address)
        finally:
            page.close()
            server.stop()


def _draw(page: Page, address: str) -> None:
    def sample(fragment: str) -> Callable[[], None]:
        def open_it() -> None:
            page.open(address, f"cloud=street&{fragment}")
            page.wait_for_sample(4096)
            page.wait_for("!document.getElementById('legend').hidden")
            page.wait_for_pixels(lambda left, right: left > 20_000 and right > 4_000)

        return open_it

    def encoder() -> None:
        sample("tab=sample")()
        page.element("tab-encode").click()
        page.element("run").click()
        page.wait_for("document.querySelectorAll('#stages label').length === 4")
        page.wait_for("document.getElementById('legend-title').textContent.startsWith('Three')")

    for dark, name, prepare in (
        (True, "page_dark", sample("")),
        (False, "page_light", sample("color=distance")),
        (True, "page_encoder", encoder),
    ):
        page.set_theme(dark=dark)
        prepare()
        # Two frames later everything that was painted is on the screen.
        page.wait_for("new Promise((done) => setTimeout(() => done(true), 500))")
        picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
        picture.save(IMAGES / f"{name}.png", optimize=True)


if __name__ == "__main__":
    main()
