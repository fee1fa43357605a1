"""Several server processes against one, at many callers, with the callers' CPU taken out.

    python -m benchmarks.service.scaling [--processes 1,2] [--callers 64] [--rounds 5] [--seconds 3]

All servers are up at once and those that are not measured are stopped (SIGSTOP); each is measured
in each round, every other round backwards, and the figures are medians of the rounds.

The callers run on the same cores, so what they take is taken from the server. What the server would
do with callers elsewhere follows from the CPU time of a call, which is measured, by the law of
bottlenecks: as often as its busiest threads allow (one event loop in each process), and as often as
all cores allow.

    bound of N processes on C cores = min(N / CPU of the busiest thread, C / CPU of all) a call

That it holds is seen at one process where its busiest thread is busy all of the time: calls a
second are what its bound says.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections import defaultdict
from contextlib import ExitStack, suppress
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks.common.machine import describe
from benchmarks.common.point_sets import lidar
from benchmarks.service.contenders import free_port
from benchmarks.service.load import SAMPLE, Contender, once, request
from benchmarks.service.processes import TICKS, Server, running
from benchmarks.service.scaling.crowd import crowd

# Points and samples of a request. The last two move as many bytes; one of them has no work to do.
CASES = ((1024, 64), (1024, 1024), (120_000, 1), (120_000, 1024))
START_S = 120

Row = dict[str, float]


def threads_of(server: Server) -> dict[tuple[int, int], float]:
    """CPU seconds of each thread of each process."""
    seconds = {}
    for pid in server.tree():
        for task in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError):
                fields = (task / "stat").read_text().rpartition(")")[2].split()
                seconds[pid, int(task.name)] = (int(fields[11]) + int(fields[12])) / TICKS
    return seconds


def measure(server: Server, data: bytes, callers: int, seconds: float, cores: int) -> Row:
    """One turn of one server."""
    before: dict[tuple[int, int], float] = {}
    with server.awake():
        look = lambda: before.update(threads_of(server))  # noqa: E731
        row = crowd(server.address, data, callers, seconds, min(cores, callers), look)
        after = threads_of(server)
    used = {thread: cpu - before.get(thread, 0.0) for thread, cpu in after.items()}
    calls, elapsed = row["calls"], row["calls"] / row["per_s"]
    processes = {pid: max(u for (p, _), u in used.items() if p == pid) for pid, _ in used}
    busiest = sum(sorted(processes.values())[-count_of(server) :])
    cpu, loop = sum(used.values()) / calls, busiest / calls
    return {
        **row,
        "cpu_ms": 1e3 * cpu,
        "busiest_ms": 1e3 * loop,
        "server_cores": sum(used.values()) / elapsed,
        "busiest_share": max(processes.values()) / elapsed,
        "bound_per_s": min(count_of(server) / loop, cores / cpu),
    }


def count_of(server: Server) -> int:
    """Server processes: of several one more is there, which supervises."""
    return max(1, len(server.tree()) - 1)


def start(count: int, stack: ExitStack, folder: str) -> Server:
    """A server of so many processes, ready and stopped."""
    address = f"127.0.0.1:{free_port()}"
    command = [sys.executable, "-m", "farpoint_server", "--listen", address, "--device", "cpu"]
    command += ["--processes", str(count), "--log-format", "json"]
    log = Path(folder) / f"{count}.log"
    server = stack.enter_context(running(command, address, {"FARPOINT_ENCODER": "none"}, log))
    give_up = time.monotonic() + START_S
    while '"event": "ready"' not in log.read_text():
        if time.monotonic() > give_up or server.process.poll() is not None:
            raise RuntimeError(f"--processes {count} did not start: {log.read_text()[-500:]}")
        time.sleep(0.1)
    cloud = lidar(1024)
    once(Contender("ready", server, SAMPLE, request(cloud, 1), lambda _: None))
    server.pause()
    return server


def medians(rows: list[Row], base: list[Row]) -> Row:
    """The median of each figure, and of its ratio to the base of the same round."""
    row = {key: median(each[key] for each in rows) for key in rows[0]}
    for key in ("per_s", "cpu_ms", "bound_per_s"):
        pairs = zip(rows, base, strict=True)
        row[f"{key}_ratio"] = median(a[key] / b[key] for a, b in pairs)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--processes", default="1,2")
    parser.add_argument("--callers", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--results", type=Path, help="a file for the rows, as JSON")
    options = parser.parse_args()
    counts = [int(count) for count in options.processes.split(",")]
    cores = len(os.sched_getaffinity(0))
    report = {
        "machine": describe("farpoint-server", "grpcio", "numpy", "torch"),
        "load_average": os.getloadavg(),
        "rows": [],
    }
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        servers = {count: start(count, stack, folder) for count in counts}
        for points, samples in CASES:
            data = request(lidar(points).astype(np.float32), samples)
            turns: dict[int, list[Row]] = defaultdict(list)
            for number in range(options.rounds):
                for count in counts[:: -1 if number % 2 else 1]:
                    turn = measure(servers[count], data, options.callers, options.seconds, cores)
                    turns[count].append(turn)
            for count in counts:
                row = medians(turns[count], turns[counts[0]])
                row |= {"points": points, "samples": samples, "processes": count}
                report["rows"].append(row)
                print(json.dumps({key: round(value, 3) for key, value in row.items()}), flush=True)
    if options.results:
        options.results.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
