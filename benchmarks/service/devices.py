"""Benchmark of a server on a GPU against others on the same machine, in turns.

python -m benchmarks.service.devices [--device cuda:0] [--seconds 1]

The others are one on the CPUs, one on both, and bare gRPC that calls the ops on the GPU by hand.
"""

import argparse
from typing import Any

from benchmarks.common.point_sets import lidar
from benchmarks.common.report import describe, heading, shown, table, write
from benchmarks.service.load import SAMPLE, Contender, load, medians, once, request
from benchmarks.service.processes import (
    BARE_SAMPLE,
    BARE_SERVER,
    Server,
    serving,
    serving_farpoint,
)
from farpoint.v1 import sampling_pb2 as pb

# (points, samples, callers)
CASES = (
    *((1024, 64, 1), (1024, 64, 16), (1024, 64, 64), (1024, 64, 256)),
    *((16_384, 4096, 1), (16_384, 4096, 8), (16_384, 4096, 64)),
    *((120_000, 4096, 1), (120_000, 4096, 16), (200_000, 16_384, 1), (200_000, 16_384, 8)),
)
COLUMNS = ("points", "samples", "callers", "device", "p50_ms", "p99_ms", "per_s", "cpu_ms")
ROUNDS = 2


def measured(
    servers: dict[str, Server], points: int, samples: int, callers: int, seconds: float
) -> list[dict[str, Any]]:
    data = request(lidar(points), samples)
    contenders = {
        name: Contender(name, s, BARE_SAMPLE if name == "by hand" else SAMPLE, data, lambda _: None)
        for name, s in servers.items()
    }
    answers = {pb.SampleResponse.FromString(once(c)).indices.data for c in contenders.values()}
    assert len(answers) == 1, "the devices answer differently"
    turns: dict[str, list[dict[str, float]]] = {name: [] for name in contenders}
    for _ in range(ROUNDS):
        for name, contender in contenders.items():
            turns[name].append(load(contender, callers, seconds))
    case = {"points": points, "samples": samples, "callers": callers}
    return [shown({**case, "device": name, **medians(found)}) for name, found in turns.items()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--seconds", type=float, default=1.0, help="of each of two turns")
    arguments = parser.parse_args()
    with (
        serving_farpoint("--device", arguments.device) as gpu,
        serving_farpoint("--device", "cpu") as cpu,
        serving_farpoint("--device", f"cpu,{arguments.device}") as both,
        serving(BARE_SERVER, arguments.device) as by_hand,
    ):
        servers = {arguments.device: gpu, "cpu": cpu, "both": both, "by hand": by_hand}
        rows = [row for case in CASES for row in measured(servers, *case, arguments.seconds)]
    machine = describe("torch", "grpcio", "numpy", "protobuf")
    print(heading(machine))
    print(table(COLUMNS, ([row[key] for key in COLUMNS] for row in rows)))
    write("service_devices", {"machine": machine, "rows": rows})


if __name__ == "__main__":
    main()
