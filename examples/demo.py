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

import numpy as np

import farpoint
from farpoint.io import Cloud, read_cloud, write_subset
from farpoint.testing import LocalServer, serve

OUTPUT = Path("demo")
SAMPLES = 4096
# A large cloud can take minutes on a small CPU.
TIMEOUT_S = 600


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
    from picture import before_after  # matplotlib takes half a second to load

    ply, png = OUTPUT / "sampled.ply", OUTPUT / "before_after.png"
    # A table may have columns of text, for which PLY has no type.
    numeric = {k: v for k, v in cloud.attributes.items() if v.dtype.kind in "fiub"}
    write_subset(ply, replace(cloud, attributes=numeric), sample.indices)
    before_after(
        png,
        cloud.points[finite],
        sample.points,
        radius=sample.covering_radius,
        unit=cloud.unit,
    )
    names = ", ".join(numeric) or "no attributes"
    return [f"{ply}: the samples, with {names}", f"{png}: the cloud next to its sample"]


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
