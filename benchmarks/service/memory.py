"""Benchmark of the server's memory over bursts of requests, under three trimming policies.

    python -m benchmarks.service.memory [--device cpu|cuda:0] [--bursts N]

One server at a time meets the same load: bursts of 16 requests of 12 MB, and quiet between them.
"policy" is the server as it is, "never" keeps what it has, and "after each request" calls
TrimMemory after every answer. Prints a table: times, the resident memory of the process, and on a
GPU what torch has reserved in the end.
"""

import argparse
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

import farpoint
from benchmarks.common.report import Row, describe, heading, shown, table
from benchmarks.service.load import percentiles_ms
from benchmarks.service.processes import serving_farpoint

POINTS, SAMPLES = 1_000_000, 16
CALLERS = 16
QUIET_S = 5.0
MODES = {
    "policy": (),
    "never": ("--memory-idle-s", "86400"),
    "after each request": ("--memory-idle-s", "86400"),
}
COLUMNS = ("mode", "p50_ms", "p99_ms", "cpu_ms", "first_mib", "most_mib", "last_mib")


def resident_mib(pid: int, field: str = "VmRSS") -> int:
    """Resident memory of a process now, or with VmHWM its peak."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition(f"{field}:")[2].split()[0]) >> 10


def measure(device: str, mode: str, bursts: int) -> Row:
    """How long the requests of one mode took, and the memory before, at most and after."""
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
        pid, worked = server.process.pid, 0.0
        first = resident_mib(pid)
        for _ in range(bursts):
            time.sleep(QUIET_S)
            begun = server.cpu_seconds()
            list(callers.map(call, clients))
            worked += server.cpu_seconds() - begun
        time.sleep(QUIET_S)
        memory = clients[0].memory().devices[0]
        return {
            "mode": mode,
            **percentiles_ms(latencies),
            "cpu_ms": 1e3 * worked / len(latencies),
            "first_mib": first,
            "most_mib": resident_mib(pid, "VmHWM"),
            "last_mib": resident_mib(pid),
            "reserved_mib": memory.reserved_bytes >> 20,
            "trims": {reason: vars(total) for reason, total in memory.trims.items()},
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--bursts", type=int, default=3)
    options = parser.parse_args()
    rows = [shown(measure(options.device, mode, options.bursts)) for mode in MODES]
    print(heading(describe("torch", "grpcio")))
    print(table(COLUMNS, ([row[key] for key in COLUMNS] for row in rows)))


if __name__ == "__main__":
    main()
