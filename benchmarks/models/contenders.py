"""PointNet++ as one archive, and the servers that run it.

Every server has the same number of threads. The peers have them in one process, which joins what
waits for it, and in as many processes or instances of one thread, which join nothing.
"""

import os
import site
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch

from benchmarks.models.pointnet2 import PointNet2Classifier
from benchmarks.service.checks import WrongAnswerError
from benchmarks.service.contenders import Command, Peer, free_port, mlserver
from benchmarks.service.load import Contender
from benchmarks.service.processes import Server, serving
from benchmarks.service.wires import BYTES_OVER_HTTP, BYTES_OVER_OIP, TENSOR_OVER_OIP, Wire
from farpoint_models.programs import Batching, Manifest, Role, TensorSpec
from farpoint_models.programs.export import export_program
from farpoint_models.programs.program import Program

ROOT = Path(__file__).parents[2]
PROGRAMS = Path(__file__).parent / "peers"
ECHO_SERVER = str(ROOT / "benchmarks" / "service" / "echo_server.py")
CLASSES = 40
JOINED = 16
JOIN_SECONDS = 0.005
TOLERANCE = 1e-4


def program(path: Path) -> Program:
    """PointNet++ (SSG classification) of the paper's size, random weights, written to `path`."""
    torch.manual_seed(0)
    manifest = Manifest(
        Batching.EQUAL,
        (TensorSpec("cloud", Role.POINTS, "float32", ("B", "N", 3)),),
        (TensorSpec("logits", Role.PER_CLOUD, "float32", ("B", CLASSES)),),
        {"N": (512, None)},
    )
    return export_program(PointNet2Classifier(CLASSES), manifest, path)


def peers(archive: Path, threads: int) -> tuple[Peer, ...]:
    """Each server that others have written: one process that joins, and a worker a thread."""
    return tuple(
        Peer(
            f"{name}, {'joined' if joins else 'apart'}",
            environment,
            command(joins, 1 if joins else threads),
            wire,
            _variables(archive, joins, 1 if joins else threads, threads),
        )
        for name, environment, command, wire in (
            ("MLServer", "mlserver", _mlserver, BYTES_OVER_OIP),
            ("LitServe", "litserve", _app("litserve_app.py"), BYTES_OVER_HTTP),
            ("PyTriton", "pytriton", _app("pytriton_app.py"), TENSOR_OVER_OIP),
        )
        for joins in (True, False)
    )


def own(ours: Server, name: str, cloud: np.ndarray, expected: np.ndarray) -> Contender:
    return _contender(name, ours, TENSOR_OVER_OIP, cloud, expected)


def theirs(peer: Peer, server: Server, cloud: np.ndarray, expected: np.ndarray) -> Contender:
    return _contender(peer.name, server, peer.wire, cloud, expected)


def _contender(
    name: str, server: Server, wire: Wire, cloud: np.ndarray, expected: np.ndarray
) -> Contender:
    data = wire.encode(cloud[None] if wire is TENSOR_OVER_OIP else cloud, 0, 0)
    return Contender(name, server, wire.method, data, close_to(expected, wire.decode), wire.connect)


def close_to(expected: np.ndarray, decode: Callable[[bytes], bytes]) -> Callable[[bytes], None]:
    """Whether float32 numbers are the expected ones within 1e-4 of the largest."""

    def check(reply: bytes) -> None:
        found = np.frombuffer(decode(reply), "<f4")
        if found.shape != expected.shape:
            raise WrongAnswerError(f"{found.shape} logits, not {expected.shape}")
        apart = float(np.abs(found - expected).max() / max(1.0, np.abs(expected).max()))
        if not apart <= TOLERANCE:
            raise WrongAnswerError(f"logits differ by {apart:.2g}")

    return check


@contextmanager
def serving_own(archive: Path, *flags: str) -> Iterator[Server]:
    """farpoint-server with the program and nothing else."""
    model = ("--encoder", "none", "--model", f"cloud={archive}")
    with serving(ECHO_SERVER, "kernels", *model, *flags) as server:
        yield server


def _variables(archive: Path, joins: bool, workers: int, threads: int) -> dict[str, str]:
    return {
        "PYTHONPATH": os.pathsep.join(map(str, (PROGRAMS, ROOT / "ops", ROOT / "server"))),
        "BENCHMARK_PACKAGES": os.pathsep.join(site.getsitepackages()),
        "BENCHMARK_PROGRAM": str(archive),
        "BENCHMARK_JOINED": str(JOINED if joins else 1),
        "BENCHMARK_JOIN_SECONDS": str(JOIN_SECONDS),
        "BENCHMARK_WORKERS": str(workers),
        "OMP_NUM_THREADS": str(threads // workers),
    }


def _mlserver(joins: bool, workers: int) -> Command:
    if joins:
        return mlserver(0, max_batch_size=JOINED, max_batch_time=JOIN_SECONDS)
    return mlserver(workers)


def _app(file: str) -> Callable[[bool, int], Command]:
    def command(python: Path, port: int, _: Path) -> list[str]:
        return [str(python), str(PROGRAMS / file), str(port), str(free_port()), str(free_port())]

    return lambda joins, workers: command  # noqa: ARG005 - its environment tells it both
