"""Benchmark of transports on one machine: TCP, a Unix socket, shared memory.

    python -m benchmarks.service.shared_memory [--quick]

Prints a table and writes benchmarks/results/shared_memory.{json,md}. One sample is taken of each
cloud, so that the way counts and not the kernel. Every way has its turn in each round; figures are
medians over the rounds. CPU time is that of all threads of the process.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np

import farpoint
from benchmarks.common.machine import describe

RESULTS = Path(__file__).parents[1] / "results"
POINTS = (10_000, 20_000, 120_000, 1_000_000)
ROUNDS = 31

Row = dict[str, float | str]


class Server:
    """A farpoint-server at every kind of address."""

    def __init__(self, folder: str) -> None:
        self.unix, self.memory = f"unix:{folder}/server", f"unix:{folder}/memory"
        command = [sys.executable, "-m", "farpoint_server", "--device", "cpu"]
        command += ["--listen", "127.0.0.1:0", "--listen", self.unix]
        command += ["--shared-memory-listen", self.memory, "--log-format", "json"]
        log = Path(folder, "log")
        with log.open("w") as file:
            self.process = subprocess.Popen(command, stderr=file)
        self.tcp = _ready(log)["address"]

    def cpu_ms(self) -> float:
        """Since it began."""
        tasks = Path(f"/proc/{self.process.pid}/task").glob("*/schedstat")
        return sum(int(task.read_text().split()[0]) for task in tasks) / 1e6


def _ready(log: Path) -> dict[str, str]:
    for _ in range(600):
        for line in log.read_text().splitlines():
            if '"ready"' in line:
                return dict(json.loads(line))
        time.sleep(0.1)
    raise SystemExit(f"the server did not start: {log.read_text()}")


@contextmanager
def serving() -> Iterator[Server]:
    with tempfile.TemporaryDirectory() as folder:
        server = Server(folder)
        try:
            yield server
        finally:
            server.process.terminate()
            server.process.wait()


def measure(server: Server, client: farpoint.Client, cloud: np.ndarray) -> tuple[float, ...]:
    """Milliseconds of one call, of the caller's CPU, of the server's CPU, and in the engine."""
    server_cpu, cpu, begun = server.cpu_ms(), time.process_time(), time.perf_counter()
    sample = client.sample(cloud, 1)
    wall = 1e3 * (time.perf_counter() - begun)
    cpu = 1e3 * (time.process_time() - cpu)
    return wall, cpu, server.cpu_ms() - server_cpu, sample.timings.compute_ms


def rows(rounds: int) -> list[Row]:
    found: list[Row] = []
    with serving() as server, ExitStack() as stack:
        ways = {
            "TCP": farpoint.Client(server.tcp),
            "Unix socket": farpoint.Client(server.unix),
            "shared memory": farpoint.Client(server.unix, shared_memory=server.memory),
        }
        for client in ways.values():
            stack.enter_context(client)
        for points in POINTS:
            cloud = np.random.default_rng(points).normal(size=(points, 3)).astype(np.float32)
            measured: dict[str, list[tuple[float, ...]]] = {way: [] for way in ways}
            for round_ in range(-3, rounds):
                for way, client in ways.items():
                    figures = measure(server, client, cloud)
                    if round_ >= 0:
                        measured[way].append(figures)
            found += [_row(way, points, figures) for way, figures in measured.items()]
    return found


def _row(way: str, points: int, figures: list[tuple[float, ...]]) -> Row:
    names = ("wall_ms", "client_cpu_ms", "server_cpu_ms", "engine_ms")
    medians = map(statistics.median, zip(*figures, strict=True))
    fastest = min(wall for wall, *_ in figures)
    return {
        "way": way,
        "megabytes": 12 * points / 1e6,
        **dict(zip(names, medians, strict=True)),
        "fastest_wall_ms": fastest,
    }


def markdown(report: dict[str, object], found: list[Row]) -> str:
    lines = [f"Load average before: {report['load_average']}.", ""]
    lines.append("| MB | way | ms | fastest ms | client CPU ms | server CPU ms | of it engine ms |")
    lines.append("|---|---|---|---|---|---|---|")
    keys = ("wall_ms", "fastest_wall_ms", "client_cpu_ms", "server_cpu_ms", "engine_ms")
    for row in found:
        figures = " | ".join(f"{row[key]:.2f}" for key in keys)
        lines.append(f"| {row['megabytes']:g} | {row['way']} | {figures} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few rounds, no files")
    quick = parser.parse_args().quick
    report: dict[str, object] = {
        "machine": describe("grpcio", "protobuf", "numpy", "torch"),
        "load_average": os.getloadavg(),
    }
    found = rows(5 if quick else ROUNDS)
    print(markdown(report, found))
    if not quick:
        RESULTS.mkdir(exist_ok=True)
        text = json.dumps({**report, "rows": found}, indent=1)
        (RESULTS / "shared_memory.json").write_text(text + "\n")
        (RESULTS / "shared_memory.md").write_text(markdown(report, found))


if __name__ == "__main__":
    main()
