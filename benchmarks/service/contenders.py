"""The servers that are compared: how each is started at its best, and its requests.

Chosen by server CPU time a call, each against its other settings: MLServer with its model in the
server's own process to echo, and with a worker for each core to sample; a height of fpsample's
tree from 3, 5, 7 and 9; LitServe's queue "fast". Ray Serve runs as it comes, and with the two
settings that its documentation names for high throughput; a replica that serves on a port of its
own, with no proxy before it, is faster still, but is no deployment that it documents.
"""

import json
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benchmarks.service.checks import equals, farthest_points, points_of, samples_of
from benchmarks.service.environments import PeerError, output_of, python_of
from benchmarks.service.load import SAMPLE, Contender, request
from benchmarks.service.processes import Server
from benchmarks.service.wires import (
    BYTES_OVER_GRPC,
    BYTES_OVER_HTTP,
    BYTES_OVER_OIP,
    TENSOR_OVER_OIP,
    Wire,
)

PROGRAMS = Path(__file__).parent / "peers"
CORES = os.cpu_count() or 1
PRIVATE = {"RAY_USAGE_STATS_ENABLED": "0"}
HIGH_THROUGHPUT = {
    **PRIVATE,
    "RAY_SERVE_ENABLE_HA_PROXY": "1",
    "RAY_SERVE_THROUGHPUT_OPTIMIZED": "1",
}
# What fpsample's documentation says of medium workloads.
USUAL_HEIGHT = 5

Command = Callable[[Path, int, Path], list[str]]


@dataclass(frozen=True)
class Peer:
    """A server that others have written, in its own environment.

    `command` takes the environment's interpreter, a port and a folder for settings.
    """

    name: str
    environment: str
    command: Command
    wire: Wire
    variables: Mapping[str, str] = field(default_factory=dict)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _program(file: str, *arguments: object) -> Command:
    def command(python: Path, port: int, _: Path) -> list[str]:
        return [str(python), str(PROGRAMS / file), str(port), *map(str, arguments)]

    return command


def _ray(replicas: int) -> Command:
    def command(python: Path, port: int, _: Path) -> list[str]:
        arguments = (port, free_port(), replicas)
        return [str(python), str(PROGRAMS / "ray_app.py"), *map(str, arguments)]

    return command


def mlserver(workers: int, **settings_of_model: object) -> Command:
    """MLServer with `mlserver_model.Cloud` as its model."""

    def command(python: Path, port: int, folder: Path) -> list[str]:
        settings = {
            "host": "127.0.0.1",
            "grpc_port": port,
            "http_port": free_port(),
            "metrics_endpoint": None,
            "debug": False,
            "parallel_workers": workers,
            "grpc_max_message_length": 1 << 28,
        }
        model = {"name": "cloud", "implementation": "mlserver_model.Cloud", **settings_of_model}
        (folder / "settings.json").write_text(json.dumps(settings))
        (folder / "model-settings.json").write_text(json.dumps(model))
        return [str(python.with_name("mlserver")), "start", str(folder)]

    return command


ECHO_PEERS = (
    Peer("MLServer, tensor", "mlserver", mlserver(0), TENSOR_OVER_OIP),
    Peer("MLServer, bytes", "mlserver", mlserver(0), BYTES_OVER_OIP),
    Peer("Ray Serve", "ray", _ray(1), BYTES_OVER_GRPC, PRIVATE),
    Peer("Ray HAProxy", "ray", _ray(CORES), BYTES_OVER_GRPC, HIGH_THROUGHPUT),
    Peer("LitServe", "litserve", _program("litserve_app.py", 1), BYTES_OVER_HTTP),
)
FPS_PEERS = (
    Peer("grpc.aio, fpsample", "grpcio", _program("grpc_app.py"), BYTES_OVER_GRPC),
    Peer("MLServer, fpsample", "mlserver", mlserver(CORES), BYTES_OVER_OIP),
    Peer("Ray Serve, fpsample", "ray", _ray(CORES), BYTES_OVER_GRPC, PRIVATE),
    Peer("Ray HAProxy, fpsample", "ray", _ray(CORES), BYTES_OVER_GRPC, HIGH_THROUGHPUT),
    Peer("LitServe, fpsample", "litserve", _program("litserve_app.py", CORES), BYTES_OVER_HTTP),
)


def peer_echo(peer: Peer, server: Server, cloud: np.ndarray) -> Contender:
    """The cloud there and back."""
    wire = peer.wire
    # A header may come back before it.
    check = equals(cloud.tobytes(), lambda reply: wire.decode(reply)[-cloud.nbytes :])
    data = wire.encode(cloud, 0, 0)
    return Contender(peer.name, server, wire.method, data, check, wire.connect)


def peer_samples(
    peer: Peer, server: Server, cloud: np.ndarray, count: int, height: int
) -> Contender:
    wire = peer.wire
    check = farthest_points(cloud, count, wire.decode)
    data = wire.encode(cloud, count, height)
    return Contender(peer.name, server, wire.method, data, check, wire.connect)


def own_echoes(bare: Server, ours: Server, cloud: np.ndarray) -> list[Contender]:
    """The answer is the cloud, or one index."""
    sent = cloud.tobytes()
    whole = request(cloud, len(cloud), return_points=True)
    one = request(cloud, 1)
    points = equals(sent, points_of)
    return [
        Contender("bare, bytes", bare, "/bare.Echo/Bytes", whole, equals(whole, bytes)),
        Contender("bare, protobuf", bare, "/bare.Echo/Protobuf", whole, points),
        # Beside the cloud these answer its indices: a third more bytes.
        Contender("bare, cloud and indices", bare, "/bare.Echo/Indices", whole, points),
        Contender("farpoint, cloud and indices", ours, SAMPLE, whole, points),
        Contender("farpoint, one index", ours, SAMPLE, one, equals(bytes(4), samples_of)),
    ]


def own_samples(ours: Server, cloud: np.ndarray, count: int) -> Contender:
    check = farthest_points(cloud, count, samples_of)
    return Contender("farpoint", ours, SAMPLE, request(cloud, count), check)


def best_heights(cloud: np.ndarray, counts: Sequence[int]) -> dict[int, int]:
    """The height of fpsample's tree that is fastest for each count, tried once here."""
    try:
        python = str(python_of("grpcio"))
        printed = output_of(
            python, str(PROGRAMS / "sampling.py"), *map(str, counts), data=cloud.tobytes()
        )
    except PeerError:
        return dict.fromkeys(counts, USUAL_HEIGHT)
    return {int(count): height for count, height in json.loads(printed).items()}
