"""Load benchmark of farpoint-server against bare gRPC and other model servers.

    python -m benchmarks.service [--quick] [--peers none]

Prints a table and writes benchmarks/results/service.json. Two modes: echo, which carries
a cloud and samples nothing, and sampling, where bare gRPC calls the ops itself.
Each peer is installed in a virtual environment of its own below build/peers, which takes
minutes the first time; one that does not install, start or answer rightly is left out, and the
results say why. Every contender runs in each round; the figures are medians of the rounds.
"""

from benchmarks.common.point_sets import lidar
from benchmarks.service.contenders import (
    ECHO_PEERS,
    FPS_PEERS,
    Peer,
    own_echoes,
    own_samples,
    peer_echo,
    peer_samples,
)
from benchmarks.service.fleet import Effort, Fleet, Report, fleet, parse_options, right
from benchmarks.service.load import Contender
from benchmarks.service.processes import ECHO_SERVER, Server, serving, serving_farpoint

SIZES = (1024, 16_384, 120_000)
SAMPLED = ((1024, 64), (16_384, 1024), (16_384, 4096))
FULL, QUICK = Effort(3, 0.8), Effort(1, 0.15, (1, 64))


def echo(peers: tuple[Peer, ...], report: Report) -> Fleet:
    """Every contender at every size and concurrency."""
    with (
        serving(ECHO_SERVER, "bare") as bare,
        serving(ECHO_SERVER, "farpoint") as ours,
        fleet({"bare": bare, "farpoint": ours}, peers, _probe) as ships,
    ):
        for points in SIZES:
            cloud = lidar(points)
            others = [peer_echo(p, ships.servers[n], cloud) for n, p in ships.peers.items()]
            contenders = right([*own_echoes(bare, ours, cloud), *others], ships)
            report.measure(contenders, ships, {"mode": "echo", "points": points})
    return ships


def sampling(peers: tuple[Peer, ...], report: Report) -> Fleet:
    """Real kernels, ours and fpsample's."""
    with (
        serving(ECHO_SERVER, "bare") as bare,
        serving_farpoint() as ours,
        fleet({"bare": bare, "farpoint": ours}, peers, _probe) as ships,
    ):
        for points, count in SAMPLED:
            cloud = lidar(points)
            others = [
                peer_samples(p, ships.servers[n], cloud, count) for n, p in ships.peers.items()
            ]
            contenders = right([*own_samples(bare, ours, cloud, count), *others], ships)
            where = {"mode": "sample", "points": points, "samples": count}
            report.measure(contenders, ships, where)
    return ships


def _probe(peer: Peer, server: Server) -> Contender:
    return peer_echo(peer, server, lidar(SIZES[0]))


def main() -> None:
    options = parse_options(__doc__)
    effort = QUICK if options.quick else FULL
    report = Report(effort)
    echoing, samplers = (ECHO_PEERS, FPS_PEERS) if options.peers == "all" else ((), ())
    fleets = [echo(echoing, report), sampling(samplers, report)]
    report.publish("service", options, (*echoing, *samplers), fleets)


if __name__ == "__main__":
    main()
