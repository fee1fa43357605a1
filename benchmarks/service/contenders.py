"""The servers that are compared: how each is started at its best, and its requests.

Chosen by server CPU time a call, each against its other settings: MLServer with a worker for each
core; fpsample's tree at the fastest of the heights 3, 5, 7 and 9 for these clouds; LitServe's queue
"fast". Ray Serve runs with its defaults, and with the two settings that its documentation names for
high throughput; a replica that serves on a port of its own, without a proxy, is faster still, but
is no deployment that it documents.
"""

import json
import os
import socket
import struct
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import numpy as np

from benchmarks.service.load import SAMPLE, Call, Contender, over_grpc, over_http, request
from benchmarks.service.processes import BARE_SAMPLE, Server
from farpoint.inference import open_inference_pb2 as oip
from farpoint.v1 import sampling_pb2 as pb

HEADER = struct.Struct("<ii")
# Samplers round distances in their own ways, which decides between points that are all but tied.
ROUNDING = 1e-5


class WrongAnswerError(Exception):
    """The fault of an answer."""


@dataclass(frozen=True)
class Wire:
    """A method, the request for some samples at a tree height, and the bytes of its answer."""

    method: str
    connect: Callable[[str, str], AbstractAsyncContextManager[Call]]
    encode: Callable[[np.ndarray, int, int], bytes]
    decode: Callable[[bytes], bytes]


def headed(cloud: np.ndarray, samples: int, height: int) -> bytes:
    """The request of peers/handler.py."""
    return HEADER.pack(samples, height) + cloud.tobytes()


def _infer_request(data_type: str, shape: tuple[int, ...], data: bytes) -> bytes:
    tensor = oip.ModelInferRequest.InferInputTensor(name="cloud", datatype=data_type, shape=shape)
    return oip.ModelInferRequest(
        model_name="cloud", inputs=[tensor], raw_input_contents=[data]
    ).SerializeToString()


def _as_tensor(cloud: np.ndarray, _samples: int, _height: int) -> bytes:
    return _infer_request("FP32", cloud.shape, cloud.tobytes())


def _as_bytes(cloud: np.ndarray, samples: int, height: int) -> bytes:
    data = headed(cloud, samples, height)
    return _infer_request("BYTES", (1,), struct.pack("<I", len(data)) + data)


def _raw_output(reply: bytes) -> bytes:
    return oip.ModelInferResponse.FromString(reply).raw_output_contents[0]


def samples_of(reply: bytes) -> bytes:
    return pb.SampleResponse.FromString(reply).indices.data


INFER = "/inference.GRPCInferenceService/ModelInfer"
BYTES_OVER_GRPC = Wire("/peer.Cloud/Answer", over_grpc, headed, bytes)
BYTES_OVER_HTTP = Wire("/predict", over_http, headed, bytes)
# MLServer turns a tensor of numbers into a list of Python floats; a BYTES element stays whole.
TENSOR_OVER_OIP = Wire(INFER, over_grpc, _as_tensor, _raw_output)
BYTES_OVER_OIP = Wire(INFER, over_grpc, _as_bytes, lambda reply: _raw_output(reply)[4:])


def farthest_points(
    cloud: np.ndarray, count: int, decode: Callable[[bytes], bytes]
) -> Callable[[bytes], None]:
    """Whether int32 rows are distinct, and each is as far from those before as brute force finds.

    The first may be any: fpsample's bucket sampler does not honour a start index.
    """

    def check(reply: bytes) -> None:
        rows = np.frombuffer(decode(reply), "<i4")
        if len(rows) != count or len(np.unique(rows)) != count:
            raise WrongAnswerError(f"{len(np.unique(rows))} distinct of {len(rows)}, not {count}")
        nearest = np.full(len(cloud), np.inf, np.float32)
        for i, (previous, chosen) in enumerate(pairwise(rows)):
            offsets = cloud - cloud[previous]
            np.minimum(nearest, np.einsum("ij,ij->i", offsets, offsets), out=nearest)
            if nearest[chosen] < nearest.max() * (1 - ROUNDING):
                raise WrongAnswerError(f"sample {i + 1} is not the farthest point")

    return check


PROGRAMS = Path(__file__).parent / "peers"
CORES = os.cpu_count() or 1
PRIVATE = {"RAY_USAGE_STATS_ENABLED": "0"}
HIGH_THROUGHPUT = {
    **PRIVATE,
    "RAY_SERVE_ENABLE_HA_PROXY": "1",
    "RAY_SERVE_THROUGHPUT_OPTIMIZED": "1",
}
HEIGHT = 5

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


def program(file: str, *arguments: object, more_ports: int = 0) -> Command:
    """One of peers/, given its ports and arguments."""

    def command(python: Path, port: int, _: Path) -> list[str]:
        ports = (port, *(free_port() for _ in range(more_ports)))
        return [str(python), str(PROGRAMS / file), *map(str, (*ports, *arguments))]

    return command


def _ray(replicas: int) -> Command:
    return program("ray_app.py", replicas, more_ports=1)


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


PEERS = (
    Peer("grpc.aio, fpsample", "grpcio", program("grpc_app.py"), BYTES_OVER_GRPC),
    Peer("MLServer, fpsample", "mlserver", mlserver(CORES), BYTES_OVER_OIP),
    Peer("Ray Serve, fpsample", "ray", _ray(CORES), BYTES_OVER_GRPC, PRIVATE),
    Peer("Ray HAProxy, fpsample", "ray", _ray(CORES), BYTES_OVER_GRPC, HIGH_THROUGHPUT),
    Peer(
        *("LitServe, fpsample", "litserve", program("litserve_app.py"), BYTES_OVER_HTTP),
        {"BENCHMARK_WORKERS": str(CORES)},
    ),
)


def peer_samples(peer: Peer, server: Server, cloud: np.ndarray, count: int) -> Contender:
    wire = peer.wire
    check = farthest_points(cloud, count, wire.decode)
    data = wire.encode(cloud, count, HEIGHT)
    return Contender(peer.name, server, wire.method, data, check, wire.connect)


def own_samples(bare: Server, ours: Server, cloud: np.ndarray, count: int) -> list[Contender]:
    """The same op on a service written by hand and on ours."""
    check, data = farthest_points(cloud, count, samples_of), request(cloud, count)
    return [
        Contender("bare, farpoint_ops", bare, BARE_SAMPLE, data, check),
        Contender("farpoint", ours, SAMPLE, data, check),
    ]
