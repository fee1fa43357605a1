"""Command that measures the page in a headless Chromium without a graphics card.

    python -m benchmarks.page [--rounds 5]

Turns the built-in street a step in each frame, with either renderer in each round, and drops a
cast scan as a file. CPU time per frame, of all processes of the browser, hardly depends on what
else the machine does; frames a second do. Wants Chromium and ChromeDriver, as the page's tests do.
"""

import argparse
import gzip
import itertools
import json
import os
import statistics
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support.servers.server_process import RunningServer
from tests.web.browser import Page

from benchmarks.common import machine
from farpoint_server.transport.http.page import FOLDER
from farpoint_training.scenes import lidar_scan

SAMPLES = 4096
TICK_MS = 1000 / os.sysconf("SC_CLK_TCK")
# Ends with the times of the frames and the points that were drawn in all of them.
TURN = """
const [seconds, done] = arguments, canvas = document.getElementById("canvas"), times = [];
let points = 0;
function step(now) {
  times.push(now);
  points += Number(canvas.dataset.drawn);
  if (now > times[0] + 1000 * seconds) return done([times, points]);
  canvas.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight", cancelable: true }));
  requestAnimationFrame(step);
}
requestAnimationFrame(step);
"""
# Milliseconds from the drop until both pictures show all that they shall.
WATCH = """
const canvas = document.getElementById("canvas");
addEventListener("drop", () => {
  const began = performance.now();
  new MutationObserver(() => {
    if (Number(canvas.dataset.drawn) === arguments[0]) window.took ??= performance.now() - began;
  }).observe(canvas, { attributes: true, attributeFilter: ["data-drawn"] });
}, { capture: true, once: true });
"""


@dataclass(frozen=True)
class Turn:
    """What a few seconds of turning gave, per frame but for the rate."""

    frames_per_second: float
    p90_ms: float
    cpu_ms: float
    points: float


def main(rounds: int) -> None:
    server = RunningServer("--http-listen", "127.0.0.1:0")
    address = str(server.wait_for(lambda line: line["event"] == "ready")["http_address"])
    with tempfile.TemporaryDirectory() as folder:
        page = Page(Path(folder), size=(1440, 900))
        try:
            turns: dict[str, list[Turn]] = {"cpu": [], "webgl": []}
            for _ in range(rounds):
                for renderer, done in turns.items():
                    done.append(_turn(page, address, renderer))
            drops = [_drop(page, address, Path(folder)) for _ in range(rounds)]
            browser = page.driver.capabilities["browserVersion"]
        finally:
            page.close()
            server.stop()
    print(json.dumps(machine.describe("farpoint-server") | {"chromium": browser}))
    for renderer, done in turns.items():
        print(f"{renderer:6}", _summary(done))
    print(f"drop to both pictures: {statistics.median(drops):.0f} ms, least {min(drops):.0f}")
    print(f"bundle, gzipped: {_packed_bytes() / 1e3:.0f} KB")


def _turn(page: Page, address: str, renderer: str, seconds: float = 3) -> Turn:
    page.open(address, f"cloud=street&m={SAMPLES}&renderer={renderer}")
    page.wait_for_sample(SAMPLES)
    page.wait_for("!document.getElementById('legend').hidden")
    page.driver.set_script_timeout(60)
    page.driver.execute_async_script(TURN, 1)  # the page learns how many points are quick enough
    before = _cpu_ms(page)
    times, points = page.driver.execute_async_script(TURN, seconds)
    spent = _cpu_ms(page) - before
    gaps = [after - begun for begun, after in itertools.pairwise(times)]
    return Turn(
        1000 / statistics.mean(gaps),
        statistics.quantiles(gaps, n=10)[-1],
        spent / len(gaps),
        points / len(times),
    )


def _summary(turns: list[Turn]) -> str:
    def median(name: str) -> float:
        return float(statistics.median(getattr(turn, name) for turn in turns))

    return (
        f"{median('frames_per_second'):.1f} frames/s, p90 {median('p90_ms'):.0f} ms, "
        f"{median('cpu_ms'):.1f} ms of CPU and {median('points'):,.0f} points a frame"
    )


def _drop(page: Page, address: str, folder: Path) -> float:
    scan = lidar_scan()
    scan.tofile(folder / "scan.bin")
    page.open(address, f"m={SAMPLES}")
    page.wait_for("document.getElementById('link').dataset.state === 'online'")
    page.script("window.took = undefined")
    page.script(WATCH, len(scan) + SAMPLES)
    page.drop(folder / "scan.bin")
    return float(page.wait_for("window.took"))


def _cpu_ms(page: Page) -> float:
    """Of ChromeDriver and every process below it, since they began."""
    return sum(_ticks(pid) for pid in _below(page.driver.service.process.pid)) * TICK_MS


def _below(pid: int) -> Iterator[int]:
    yield pid
    for thread in Path(f"/proc/{pid}/task").iterdir():
        for child in (thread / "children").read_text().split():
            yield from _below(int(child))


def _ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def _packed_bytes() -> int:
    return sum(len(gzip.compress(f.read_bytes())) for f in FOLDER.rglob("*") if f.is_file())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    main(parser.parse_args().rounds)
