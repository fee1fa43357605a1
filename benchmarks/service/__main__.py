"""Load benchmark of farpoint-server against bare gRPC and other model servers.

    python -m benchmarks.service [--quick] [--peers none]

Prints a table and writes benchmarks/results/service.json. Peers sample by fpsample, bare gRPC calls
the ops itself. Each peer is installed in a virtual environment of its own below build/peers, which
takes minutes the first time; one that does not install, start or answer rightly is left out, and
the results say why. Every contender runs in each round; the figures are medians of the rounds.
"""

from benchmarks.common.point_sets import lidar
from benchmarks.service.contenders import PEERS, Peer, own_samples, peer_samples
from benchmarks.service.fleet import Effort, Report, fleet, parse_options, right
from benchmarks.service.load import Contender
from benchmarks.service.processes import BARE_SERVER, Server, serving, serving_farpoint

SAMPLED = ((1024, 64), (16_384, 1024), (16_384, 4096))
FULL, QUICK = Effort(3, 0.8), Effort(1, 0.15, (1, 64))


def _probe(peer: Peer, server: Server) -> Contender:
    return peer_samples(peer, server, lidar(1024), 64)


def main() -> None:
    options = parse_options(__doc__)
    report = Report(QUICK if options.quick else FULL)
    peers = PEERS if options.peers == "all" else ()
    with (
        serving(BARE_SERVER) as bare,
        serving_farpoint() as ours,
        fleet({"bare": bare, "farpoint": ours}, peers, _probe) as ships,
    ):
        for points, count in SAMPLED:
            cloud = lidar(points)
            others = [
                peer_samples(p, ships.servers[n], cloud, count) for n, p in ships.peers.items()
            ]
            contenders = right([*own_samples(bare, ours, cloud, count), *others], ships)
            report.measure(contenders, ships, {"points": points, "samples": count})
    report.publish("service", options, peers, ships)


if __name__ == "__main__":
    main()
