"""Benchmark of what Ray Serve adds to a call, beside the same server without it.

    python -m benchmarks.service.ray_overhead [--quick]

Needs the extra farpoint-server[ray]. Both run all the time, one replica and one proxy there; every
way has its turn in each round, and figures are medians over the rounds. One sample is taken of each
cloud, so that the way counts and not the kernel. Writes benchmarks/results/ray.{json,md}.
"""

import argparse
import json
import os
import socket
import statistics
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import farpoint
from benchmarks.common.machine import describe
from benchmarks.service.shared_memory import serving

RESULTS = Path(__file__).parents[1] / "results"
POINTS = (1_024, 20_000, 120_000, 1_000_000)
ROUNDS, CALLERS, LOADED_CALLS = 101, 8, 400
Row = dict[str, float | int]


@contextmanager
def through_ray() -> Iterator[str]:
    """The address of a proxy before one replica, on a cluster of its own."""
    from ray import serve

    from farpoint_server.ray_serve.application import application

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    functions = ["farpoint_server.ray_serve.application.add_to_server"]
    serve.start(grpc_options={"port": port, "grpc_servicer_functions": functions})
    serve.run(application({"device": "cpu", "cpu_threads": 2}), name="farpoint")
    try:
        yield f"127.0.0.1:{port}"
    finally:
        serve.shutdown()


def milliseconds(client: farpoint.Client, cloud: np.ndarray) -> float:
    begun = time.perf_counter()
    client.sample(cloud, 1)
    return 1e3 * (time.perf_counter() - begun)


def calls_a_second(client: farpoint.Client, cloud: np.ndarray, calls: int) -> float:
    with ThreadPoolExecutor(CALLERS) as callers:
        begun = time.perf_counter()
        list(callers.map(lambda _: client.sample(cloud, 1), range(calls)))
        return calls / (time.perf_counter() - begun)


def measure(ways: dict[str, farpoint.Client], points: int, rounds: int) -> Row:
    cloud = np.random.default_rng(points).normal(size=(points, 3)).astype(np.float32)
    row: Row = {"points": points}
    walls: dict[str, list[float]] = {way: [] for way in ways}
    rates: dict[str, list[float]] = {way: [] for way in ways}
    for round_ in range(-3, rounds):
        for way, client in ways.items():
            wall = milliseconds(client, cloud)
            if round_ >= 0:
                walls[way].append(wall)
    for _ in range(max(1, rounds // 20)):
        for way, client in ways.items():
            calls = min(LOADED_CALLS, 4_000_000 // points + CALLERS)
            rates[way].append(calls_a_second(client, cloud, calls))
    for way in ways:
        row[f"{way}_ms"] = statistics.median(walls[way])
        row[f"{way}_calls_a_second"] = statistics.median(rates[way])
    return row


def markdown(report: dict[str, Any], found: list[Row]) -> str:
    machine, busy = report["machine"], report["load_average"][0]
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    lines = [
        f"{machine['processor']}; {versions}; load average before: {busy:.1f}.",
        "",
        f"| points | plain ms | Ray ms | Ray adds ms | plain calls/s, {CALLERS} callers | Ray |",
        "|---|---|---|---|---|---|",
    ]
    for row in found:
        added = row["ray_ms"] - row["plain_ms"]
        lines.append(
            f"| {row['points']:,} | {row['plain_ms']:.1f} | {row['ray_ms']:.1f} | {added:.1f} | "
            f"{row['plain_calls_a_second']:.0f} | {row['ray_calls_a_second']:.0f} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a fifth of the rounds, not written")
    quick = parser.parse_args().quick
    report: dict[str, Any] = {
        "machine": describe("ray", "grpcio", "protobuf", "numpy", "torch"),
        "load_average": os.getloadavg(),
    }
    with ExitStack() as stack:
        addresses = stack.enter_context(serving()).tcp, stack.enter_context(through_ray())
        plain, ray = (stack.enter_context(farpoint.Client(address)) for address in addresses)
        ways = {"plain": plain, "ray": ray}
        found = [measure(ways, points, ROUNDS // 5 if quick else ROUNDS) for points in POINTS]
    table = markdown(report, found)
    print(table)
    if not quick:
        (RESULTS / "ray.json").write_text(json.dumps({**report, "rows": found}, indent=1) + "\n")
        (RESULTS / "ray.md").write_text(f"# What Ray Serve adds to a call\n\n{table}")


if __name__ == "__main__":
    main()
