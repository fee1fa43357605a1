"""Command that starts a server, samples a cloud through the client and plots the result.

    python examples/demo.py [CLOUD] [--stay]

CLOUD is any file that docs/files.md lists. Without one, a LiDAR scan is ray-cast. Everything is
written to the folder demo/. With --stay the server and its page stay until Ctrl-C.
"""

import argparse
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import farpoint
from farpoint.io import Cloud, read_cloud, write_subset
from farpoint.testing import LocalServer, serve

OUTPUT = Path("demo")
SAMPLES = 4096
# A large cloud can take minutes on a small CPU.
TIMEOUT_S = 600
BACKGROUND, INK, FAINT = "#0b0e14", "#e6e6e6", (0.227, 0.271, 0.341)
# More points than pixels of a panel add time and nothing else.
MAX_POINTS = 300_000


class DemoError(Exception):
    """The demo cannot go on."""


def main(path: Path | None, stay: bool) -> None:
    OUTPUT.mkdir(exist_ok=True)
    print("Starting farpoint-server …")
    with ThreadPoolExecutor(1) as meanwhile:
        cloud = meanwhile.submit(lambda: read_cloud(path) if path else _cast_scan())
        with serve("--http-listen=127.0.0.1:0") as server:
            _sample(server, cloud.result(), stay)


def _sample(server: LocalServer, cloud: Cloud, stay: bool) -> None:
    finite = np.isfinite(cloud.points).all(axis=1)
    if not finite.any():
        raise DemoError("the cloud has no point with finite coordinates")
    m = max(1, min(SAMPLES, int(finite.sum()) // 4))
    with farpoint.Client(server.address) as client:
        info = client.server_info()
        sample = client.sample(cloud.points, m, nonfinite="ignore", timeout=TIMEOUT_S)
    _report(cloud, finite, sample, info)
    print(*_write(cloud, finite, sample), sep="\n")
    if stay and server.page is not None:
        print(f"Open {server.page}; Ctrl-C stops the server.", flush=True)
        signal.pause()
    else:
        print("make demo STAY=1 keeps the server running, with a page for your own clouds.")


def _cast_scan() -> Cloud:
    from farpoint_training.scenes import lidar_scan  # only in a checkout

    print("Ray-casting a LiDAR scan of a street …")
    path = OUTPUT / "scan.bin"
    lidar_scan().tofile(path)
    return replace(read_cloud(path), unit="metre")


def _report(
    cloud: Cloud, finite: np.ndarray, sample: farpoint.Sample, info: farpoint.ServerInfo
) -> None:
    took = sample.timings
    skipped = len(cloud) - int(finite.sum())
    rows = {
        "points in": f"{len(cloud):,}" + f" ({skipped:,} not finite)" * bool(skipped),
        "points out": f"{len(sample):,}",
        "covering radius": f"{sample.covering_radius:.4g} {cloud.unit or ''}",
        "time in queue": f"{took.queue_ms:.2f} ms",
        "time in compute": f"{took.compute_ms:.2f} ms",
        "time on the wire": f"{took.wire_ms:.2f} ms",
        "device": ", ".join(f"{d.name} ({d.description})" for d in info.devices),
        "server": f"farpoint-server {info.version}, torch {info.torch_version}",
    }
    print(*(f"  {name:16}  {value}" for name, value in rows.items()), sep="\n")


def _write(cloud: Cloud, finite: np.ndarray, sample: farpoint.Sample) -> list[str]:
    ply, png = OUTPUT / "sampled.ply", OUTPUT / "before_after.png"
    # A table may have columns of text, for which PLY has no type.
    numeric = {k: v for k, v in cloud.attributes.items() if v.dtype.kind in "fiub"}
    write_subset(ply, replace(cloud, attributes=numeric), sample.indices)
    _draw(
        png,
        cloud.points[finite],
        sample.points,
        radius=sample.covering_radius,
        unit=cloud.unit,
    )
    names = ", ".join(numeric) or "no attributes"
    return [f"{ply}: the samples, with {names}", f"{png}: the cloud next to its sample"]


def _draw(
    path: Path, points: np.ndarray, samples: np.ndarray, *, radius: float, unit: str | None = None
) -> None:
    """Writes a PNG of a cloud (N, 3) next to its sample (M, 3), colored by height."""
    from matplotlib.figure import Figure  # takes half a second to load

    figure: Any = Figure(figsize=(16, 6.4), dpi=100, facecolor=BACKGROUND)
    frame = np.percentile(np.asarray(points, np.float64), [2, 98], axis=0)
    step = -(-len(points) // MAX_POINTS)
    drawn = points[::step]
    dot = float(np.clip(60_000 / len(drawn), 0.5, 4))
    left = _panel(figure, 1, f"{len(points):,} points in", frame)
    _scatter(left, drawn, frame, _by_height(drawn, frame), 1.5 * dot)
    right = _panel(figure, 2, f"{len(samples):,} points out", frame)
    _scatter(right, drawn, frame, FAINT, 0.5 * dot)
    _scatter(right, samples, frame, _by_height(samples, frame), 12 * dot**0.5)
    text = _caption(len(points), len(samples), radius, unit)
    figure.text(0.5, 0.03, text, color=INK, ha="center", fontsize=13, alpha=0.8)
    figure.subplots_adjust(0, 0.07, 1, 0.93, wspace=0)
    figure.savefig(path, format="png")


def _caption(points: int, samples: int, radius: float, unit: str | None) -> str:
    unit = "unit" if unit is None else unit
    units = unit.replace("foot", "feet") if "foot" in unit else f"{unit}s"
    start = f"Every one of the {points:,} points lies within {radius:.3g} {units}"
    return f"{start} of one of the {samples:,} samples"


def _panel(figure: Any, place: int, title: str, frame: np.ndarray) -> Any:
    axes = figure.add_subplot(1, 2, place, projection="3d", computed_zorder=False)
    axes.set_facecolor(BACKGROUND)
    axes.set_title(title, color=INK, fontsize=19, pad=10)
    axes.set_axis_off()
    axes.set(xlim=frame[:, 0], ylim=frame[:, 1], zlim=frame[:, 2])
    axes.set_box_aspect(np.maximum(np.ptp(frame, axis=0), 1e-9), zoom=1.5)
    axes.view_init(36, -154)  # from behind a shoulder; z is up
    return axes


def _by_height(points: np.ndarray, frame: np.ndarray) -> np.ndarray:
    """(N, 4) from 0 to 1."""
    from matplotlib import colormaps

    low, high = frame[:, 2]
    height = np.clip((points[:, 2] - low) / max(float(high - low), 1e-9), 0, 1)
    return np.asarray(colormaps["turbo"](0.14 + 0.76 * height))


def _scatter(axes: Any, points: np.ndarray, frame: np.ndarray, tints: Any, size: float) -> None:
    """The points within the frame: scans have a long tail."""
    inside = ((points >= frame[0]) & (points <= frame[1])).all(axis=1)
    tints = tints[inside] if isinstance(tints, np.ndarray) else tints
    options = {"linewidths": 0, "depthshade": False, "clip_on": False}
    axes.scatter(*points[inside].T, s=size, color=tints, **options)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("cloud", nargs="?", type=Path)
    parser.add_argument(
        "--stay", action="store_true", help="keep the server and its page until Ctrl-C"
    )
    # As an exception, so that the server is stopped on the way out.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        given = parser.parse_args()
        main(given.cloud, given.stay)
    except (DemoError, farpoint.FarpointError, OSError) as error:
        sys.exit(f"The demo failed: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
