"""Chromium with the page of a server, driven by ChromeDriver.

    python -m tests.web.browser

writes docs/images/page_*.png, pictures of the page.
"""

import base64
import io
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image
from tests.support.servers.server_process import RunningServer, wait_until

if TYPE_CHECKING:
    from selenium.webdriver.remote.webelement import WebElement

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
FLAGS = """
--headless=new --no-sandbox --use-angle=swiftshader --enable-unsafe-swiftshader
--ignore-gpu-blocklist --disable-quic --no-first-run --disable-background-networking
--disable-component-update --disable-sync --hide-scrollbars
"""
# Pixels of the canvas left and right of the middle, all but the background.
PIXELS = """
const canvas = document.getElementById("canvas"), copy = document.createElement("canvas");
[copy.width, copy.height] = [canvas.width, canvas.height];
const flat = copy.getContext("2d");
flat.drawImage(canvas, 0, 0);
const { data, width } = flat.getImageData(0, 0, copy.width, copy.height);
const back = getComputedStyle(canvas).backgroundColor.match(/[\\d.]+/g).map(Number);
const counts = [0, 0];
for (let i = 0; i < data.length; i += 4) {
  const far = [0, 1, 2].some((k) => Math.abs(data[i + k] - back[k]) > 8);
  if (far) counts[(i / 4) % width < width / 2 ? 0 : 1]++;
}
return counts;
"""


class Page:
    """The page in a window of its own browser; `close` ends it."""

    def __init__(self, folder: Path, *, dark: bool = False, size: tuple[int, int] = (1280, 800)):
        from selenium import webdriver  # here, so that tests can be collected without it

        options = webdriver.ChromeOptions()
        options.binary_location = CHROMIUM
        for flag in (*FLAGS.split(), f"--user-data-dir={folder / 'profile'}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.downloads = folder / "downloads"
        service = webdriver.ChromeService(executable_path=DRIVER)
        self.driver = webdriver.Chrome(options=options, service=service)
        self.cdp("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(self.downloads))
        self.resize(*size)
        self.set_theme(dark=dark)

    def cdp(self, command: str, **parameters: Any) -> Any:
        return self.driver.execute_cdp_cmd(command, parameters)

    def resize(self, width: int, height: int) -> None:
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.cdp("Emulation.setDeviceMetricsOverride", **size)

    def set_theme(self, *, dark: bool) -> None:
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.cdp("Emulation.setEmulatedMedia", features=[scheme])

    def open(self, address: str) -> None:
        self.driver.get(f"http://{address}/")

    def script(self, text: str, *arguments: Any) -> Any:
        return self.driver.execute_script(text, *arguments)

    def wait_for(self, condition: str) -> Any:
        """The value of a JavaScript expression, once it is true."""
        return wait_until(
            lambda: self.script(f"return {condition}"),
            lambda: f"{condition}; message: {self.message()!r}",
        )

    def wait_for_sample(self, samples: int) -> None:
        caption = "document.getElementById('caption-sample').textContent"
        self.wait_for(f"{caption}.split(' · ')[1] === '{samples:,}'")

    def wait_for_message(self, *, without: str = "") -> str:
        shown = "document.getElementById('notice-text').textContent"
        return str(self.wait_for(f"{shown} !== '{without}' && {shown}"))

    def element(self, name: str) -> "WebElement":
        return self.driver.find_element("id", name)

    def text(self, name: str) -> str:
        return str(self.script("return document.getElementById(arguments[0]).textContent", name))

    def message(self) -> str:
        return self.text("notice-text")

    def drop(self, path: Path) -> None:
        """Drops a file on the pictures."""
        data = {"items": [], "files": [str(path)], "dragOperationsMask": 1}
        for kind in ("dragEnter", "dragOver", "drop"):
            self.cdp("Input.dispatchDragEvent", type=kind, x=700, y=300, data=data)

    def enter(self, name: str, value: object) -> None:
        """Sets the value of a field or of a list of choices."""
        # At once: an answer of the server may set the field to what it was.
        change = "field.value = arguments[1]; field.dispatchEvent(new Event('change'))"
        self.script(f"const field = arguments[0]; {change}", self.element(name), str(value))

    def set_samples(self, samples: int) -> None:
        self.enter("m-number", samples)
        self.wait_for_sample(samples)

    def open_idle(self, address: str) -> None:
        """Loads the page and waits for the sample that it opens with."""
        self.open(address)
        self.wait_for("document.getElementById('sentence').textContent.includes(' of ')")
        self.wait_for_idle()

    def wait_for_idle(self) -> None:
        self.wait_for("document.getElementById('busy').textContent === ''")

    def download(self, kind: str) -> bytes:
        """The file that a button downloads."""
        shutil.rmtree(self.downloads, ignore_errors=True)
        time.sleep(0.11)  # Chromium drops the eleventh download in a second without a trace
        self.driver.find_element("css selector", f'[data-format="{kind}"]').click()
        # The name is there from the beginning, empty; what was written is moved onto it.
        done = wait_until(lambda: [p for p in self.downloads.glob("*") if _complete(p)])
        return bytes(done[0].read_bytes())

    def download_array(self, kind: str = "npy") -> np.ndarray:
        return np.load(io.BytesIO(self.download(kind)))

    def wait_for_pixels(self, wanted: Callable[[int, int], bool]) -> tuple[int, int]:
        """Counts of drawn pixels in the left and the right half of the canvas, once they fit."""
        counts: list[int] = []

        def fits() -> bool:
            counts[:] = self.script(PIXELS)
            return wanted(*counts)

        wait_until(fits, lambda: f"{counts} pixels; message: {self.message()!r}")
        return counts[0], counts[1]

    def canvas(self) -> Image.Image:
        data = self.script("return document.getElementById('canvas').toDataURL()")
        return Image.open(io.BytesIO(base64.b64decode(data.partition(",")[2])))

    def screenshot(self) -> bytes:
        return base64.b64decode(self.cdp("Page.captureScreenshot", format="png")["data"])

    def complaints(self) -> list[str]:
        """Messages of the browser's console since the last call."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def close(self) -> None:
        self.driver.quit()


def _complete(path: Path) -> bool:
    return path.suffix != ".crdownload" and path.stat().st_size > 0


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
    page.open_idle(address)
    for name, compared in (("page_dark", "none"), ("page_compare", "random")):
        page.enter("compare", compared)
        page.wait_for_idle()
        # Later than the last frame, which has every point.
        page.wait_for("new Promise((done) => setTimeout(() => done(true), 1000))")
        picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
        picture.save(IMAGES / f"{name}.png", optimize=True)


if __name__ == "__main__":
    main()
