"""Benchmark of the server's memory over bursts of requests, under three trimming policies.

    python -m benchmarks.service.memory [--device cpu|cuda:0] [--bursts N]

One server at a time meets the same load: bursts of 16 requests of 12 MB, and quiet between them.
"policy" is the server as it is, "never" keeps what it has, and "after each request" calls
TrimMemory after every answer. Writes benchmarks/results/memory_<device>.json and
docs/images/memory_<device>.png: on a CPU the resident memory of the process, on a GPU what torch
has allocated and reserved.
"""

import argparse
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

import farpoint
from benchmarks.common.report import ROOT, Row, describe, write
from benchmarks.service.load import percentiles_ms
from benchmarks.service.processes import serving_farpoint

POINTS, SAMPLES = 1_000_000, 16
CALLERS = 16
QUIET_S = 5.0
SAMPLE_S = 0.05
MODES = {
    "policy": (),
    "never": ("--memory-idle-s", "86400"),
    "after each request": ("--memory-idle-s", "86400"),
}


class Watch:
    """Memory every SAMPLE_S seconds, until `stop`."""

    def __init__(self, client: farpoint.Client) -> None:
        self.series: list[Row] = []
        self._client = client
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._begun = time.monotonic()
        self._thread.start()

    def stop(self) -> list[Row]:
        self._done.set()
        self._thread.join()
        return self.series

    def _run(self) -> None:
        while not self._done.wait(SAMPLE_S):
            memory = self._client.memory()
            device = memory.devices[0]
            self.series.append(
                {
                    "s": round(time.monotonic() - self._begun, 3),
                    "resident_bytes": memory.resident_bytes,
                    "allocated_bytes": device.allocated_bytes,
                    "reserved_bytes": device.reserved_bytes,
                }
            )


def measure(device: str, mode: str, bursts: int) -> Row:
    """The series of one mode, and how long its requests took."""
    cloud = np.random.default_rng(0).random((POINTS, 3), np.float32)
    latencies: list[float] = []
    flags = ("--device", device, "--admin-listen", "127.0.0.1:0", *MODES[mode])
    with serving_farpoint(*flags) as server, ThreadPoolExecutor(CALLERS) as callers:
        clients = [farpoint.Client(server.address) for _ in range(CALLERS)]

        def call(client: farpoint.Client) -> None:
            begun = time.perf_counter()
            client.sample(cloud, SAMPLES)
            latencies.append(time.perf_counter() - begun)
            if mode == "after each request":
                client.trim_memory(force=True)

        for client in clients:
            client.sample(cloud[:1000], SAMPLES)
        watch = Watch(farpoint.Client(server.address))
        worked = 0.0
        for _ in range(bursts):
            time.sleep(QUIET_S)
            begun = server.cpu_seconds()
            list(callers.map(call, clients))
            worked += server.cpu_seconds() - begun
        time.sleep(QUIET_S)
        series = watch.stop()
        trims = clients[0].memory().devices[0].trims
    return {
        "mode": mode,
        **percentiles_ms(latencies),
        "server_cpu_ms": 1e3 * worked / len(latencies),
        "trims": {reason: vars(total) for reason, total in trims.items()},
        "series": series,
    }


def summary(row: Row) -> str:
    sizes = [point["resident_bytes"] >> 20 for point in row["series"]]
    return (
        f"{row['mode']}: p50 {row['p50_ms']:.0f} ms, p99 {row['p99_ms']:.0f} ms, server CPU "
        f"{row['server_cpu_ms']:.1f} ms a request, resident MiB first {sizes[0]}, "
        f"highest {max(sizes)}, last {sizes[-1]}"
    )


def plot(report: Row, path: Path) -> None:
    import matplotlib.pyplot as plt

    on_card = report["device"] != "cpu"
    keys = ("reserved_bytes", "allocated_bytes") if on_card else ("resident_bytes",)
    figure, axes = plt.subplots(figsize=(8, 4), layout="constrained")
    for row, color in zip(report["rows"], ("#2a9d8f", "#e76f51", "#264653"), strict=True):
        for key, style in zip(keys, ("-", ":"), strict=False):
            times = [point["s"] for point in row["series"]]
            sizes = [point[key] / (1 << 20) for point in row["series"]]
            label = row["mode"] if style == "-" else None
            axes.plot(times, sizes, style, color=color, label=label, linewidth=1.6)
    axes.set_xlabel(f"seconds; bursts of {CALLERS} requests of {POINTS * 12 / 1e6:.0f} MB")
    what = "reserved, dotted allocated" if on_card else "resident memory of the server"
    axes.set_ylabel(f"{what}, MiB")
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=140)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--bursts", type=int, default=3)
    arguments = parser.parse_args()
    rows = []
    for mode in MODES:
        rows.append(measure(arguments.device, mode, arguments.bursts))
        print(summary(rows[-1]))
    report = {"machine": describe("torch", "grpcio"), "device": arguments.device, "rows": rows}
    name = f"memory_{arguments.device.replace(':', '')}"
    write(name, report)
    plot(report, ROOT / "docs" / "images" / f"{name}.png")


if __name__ == "__main__":
    main()
