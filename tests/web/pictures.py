"""Command that writes docs/images/page_*.png, pictures of the page.

    python -m tests.web.pictures

Needs Chromium and ChromeDriver, as the tests of the page do.
"""

import io
import tempfile
from pathlib import Path

from PIL import Image
from tests.support.servers.server_process import RunningServer
from tests.web.browser import Page

IMAGES = Path("docs") / "images"


def main() -> None:
    server = RunningServer("--http-listen", "127.0.0.1:0")
    address = server.ready["http_address"]
    with tempfile.TemporaryDirectory() as folder:
        page = Page(Path(folder), size=(1440, 900))
        try:
            _draw(page, address)
        finally:
            page.close()
            server.stop()


def _draw(page: Page, address: str) -> None:
    page.set_theme(dark=True)
    for name, fragment in (("page_dark", ""), ("page_compare", "compare=random")):
        page.open_idle(address, fragment)
        page.wait_for("!document.getElementById('legend').hidden")
        # Later than the last frame, which has every point.
        page.wait_for("new Promise((done) => setTimeout(() => done(true), 1000))")
        picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
        picture.save(IMAGES / f"{name}.png", optimize=True)


if __name__ == "__main__":
    main()
