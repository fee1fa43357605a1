"""Load benchmark of farpoint-server against bare gRPC and other model servers.

    python -m benchmarks.service [--quick] [--peers none] [--results FOLDER]

Prints tables and writes benchmarks/results/service.json. Two modes: echo, which carries
a cloud and samples nothing, and sampling of 16 384 points.
Each peer is installed in a virtual environment of its own below benchmarks/peers, which takes
minutes the first time; one that does not install, start or answer rightly is left out, and the
results say why.

Every contender runs in each round, so that all meet the same machine; the figures are medians of
the rounds. All servers are up at once, yet those that are not measured are stopped (SIGSTOP), since
some use the CPU when nobody calls: the last table has how much.
"""

import argparse
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.common.machine import describe
from benchmarks.common.point_sets import lidar
from benchmarks.service.contenders import (
    ECHO_PEERS,
    FPS_PEERS,
    Peer,
    best_heights,
    own_echoes,
    own_samples,
    peer_echo,
    peer_samples,
)
from benchmarks.service.environments import peer_versions
from benchmarks.service.fleet import Effort, Fleet, fleet, right, rounds_of
from benchmarks.service.load import Contender
from benchmarks.service.processes import Server, serving
from benchmarks.service.report import markdown, ratios

HERE = Path(__file__).parent
SIZES = (1024, 16_384, 120_000)
SAMPLED = 16_384
FULL, QUICK = Effort(3, 0.8), Effort(1, 0.15, (1, 64), (1024,))
ECHO_SERVER = str(HERE / "echo_server.py")

Row = dict[str, Any]


def echo(peers: tuple[Peer, ...], effort: Effort) -> tuple[list[Row], Fleet]:
    """Every contender at every size and concurrency."""
    rows = []
    with (
        serving(ECHO_SERVER, "bare") as bare,
        serving(ECHO_SERVER, "farpoint") as ours,
        fleet({"bare": bare, "farpoint": ours}, peers, _probe) as ships,
    ):
        for points in SIZES:
            cloud = lidar(points)
            others = [peer_echo(p, ships.servers[n], cloud) for n, p in ships.peers.items()]
            contenders = right([*own_echoes(bare, ours, cloud), *others], ships)
            rows += _rows(contenders, ships, effort, {"mode": "echo", "points": points})
    return rows, ships


def sampling(peers: tuple[Peer, ...], effort: Effort) -> tuple[list[Row], Fleet]:
    """Real kernels, ours and fpsample's."""
    rows = []
    cloud = lidar(SAMPLED)
    heights = best_heights(cloud, effort.counts) if peers else dict.fromkeys(effort.counts, 0)
    with (
        serving(ECHO_SERVER, "kernels") as ours,
        fleet({"farpoint": ours}, peers, _probe) as ships,
    ):
        for count in effort.counts:
            others = [
                peer_samples(p, ships.servers[n], cloud, count, heights[count])
                for n, p in ships.peers.items()
            ]
            contenders = right([own_samples(ours, cloud, count), *others], ships)
            where = {"mode": "sample", "points": SAMPLED, "samples": count}
            rows += _rows(contenders, ships, effort, {**where, "height": heights[count]})
    return rows, ships


def _probe(peer: Peer, server: Server) -> Contender:
    return peer_echo(peer, server, lidar(SIZES[0]))


def _rows(contenders: list[Contender], ships: Fleet, effort: Effort, where: Row) -> list[Row]:
    rows = []
    for concurrency in effort.concurrency:
        for row in rounds_of(contenders, ships, concurrency, effort):
            rows.append({**where, **row})
            print(json.dumps(rows[-1]), flush=True)
    return rows


def measure(with_peers: bool, effort: Effort) -> Row:
    begun, load_average = time.monotonic(), os.getloadavg()
    echo_rows, echo_ships = echo(ECHO_PEERS if with_peers else (), effort)
    sample_rows, sample_ships = sampling(FPS_PEERS if with_peers else (), effort)
    return {
        "machine": describe("farpoint-server", "grpcio", "protobuf", "numpy", "torch"),
        "peer_versions": peer_versions({p.environment: None for p in (*ECHO_PEERS, *FPS_PEERS)})
        if with_peers
        else {},
        "load_average": load_average,
        "minutes": (time.monotonic() - begun) / 60,
        "rounds": effort.rounds,
        "seconds": effort.seconds,
        "ratios": ratios(echo_rows + sample_rows),
        "rows": echo_rows + sample_rows,
        "servers": {
            "echo": list(echo_ships.weights.values()),
            "sample": list(sample_ships.weights.values()),
        },
        "left_out": echo_ships.left_out | sample_ships.left_out,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one short round of fewer cases")
    parser.add_argument("--peers", choices=("all", "none"), default="all")
    parser.add_argument(
        "--results", type=Path, help="default: benchmarks/results, and nowhere with --quick"
    )
    options = parser.parse_args()
    # Ended from outside, it still ends its servers, which may be stopped at that moment.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    effort = QUICK if options.quick else FULL
    report = measure(options.peers == "all", effort)
    print(markdown(report))
    folder = options.results or (None if options.quick else HERE.parent / "results")
    if folder:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "service.json").write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
