"""PointNet++ as one archive, and the servers that run it.

Every server has the same number of threads. The peers have them in one process, which joins what
waits for it, and in as many processes or instances of one thread, which join nothing.
"""

import os
import site
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from benchmarks.common.report import ROOT
from benchmarks.models.pointnet2 import PointNet2Classifier
from benchmarks.service.contenders import (
    BYTES_OVER_HTTP,
    BYTES_OVER_OIP,
    CORES,
    PROGRAMS,
    TENSOR_OVER_OIP,
    Command,
    Peer,
    Wire,
    WrongAnswerError,
    mlserver,
)
from benchmarks.service.contenders import program as program_of
from benchmarks.service.load import Contender
from benchmarks.service.processes import Server
from farpoint_models.programs import Batching, Manifest, Role, TensorSpec
from farpoint_models.programs.export import export_program
from farpoint_models.programs.program import Program

CLASSES = 40
PYTRITON = program_of("pytriton_app.py", more_ports=2)
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


def peers(archive: Path) -> tuple[Peer, ...]:
    """Each server that others have written: one process that joins, and a worker a core."""
    return tuple(
        Peer(
            f"{name}, {'joined' if joins else 'apart'}",
            environment,
            command(joins),
            wire,
            _variables(archive, joins),
        )
        for name, environment, command, wire in (
            ("MLServer", "mlserver", _mlserver, BYTES_OVER_OIP),
            ("LitServe", "litserve", lambda _: program_of("litserve_app.py"), BYTES_OVER_HTTP),
            ("PyTriton", "pytriton", lambda _: PYTRITON, TENSOR_OVER_OIP),
        )
        for joins in (True, False)
    )


def contender(
    name: str, server: Server, wire: Wire, cloud: np.ndarray, expected: np.ndarray
) -> Contender:
    """The cloud in, its logits out."""
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


def _variables(archive: Path, joins: bool) -> dict[str, str]:
    workers = 1 if joins else CORES
    return {
        "PYTHONPATH": os.pathsep.join(map(str, (PROGRAMS, ROOT / "ops", ROOT / "server"))),
        "BENCHMARK_PACKAGES": os.pathsep.join(site.getsitepackages()),
        "BENCHMARK_PROGRAM": str(archive),
        "BENCHMARK_JOINED": str(JOINED if joins else 1),
        "BENCHMARK_JOIN_SECONDS": str(JOIN_SECONDS),
        "BENCHMARK_WORKERS": str(workers),
        "OMP_NUM_THREADS": str(CORES // workers),
    }


def _mlserver(joins: bool) -> Command:
    if joins:
        return mlserver(0, max_batch_size=JOINED, max_batch_time=JOIN_SECONDS)
    return mlserver(CORES)
