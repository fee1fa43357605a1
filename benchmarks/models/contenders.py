"""PointNet++ as one archive, and the servers that run it.

Every server has the same number of threads. The peers have them in one process, which joins what
waits for it, and in as many processes or instances of one thread, which join nothing.
"""

import os
import site
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.common.report import ROOT
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
from farpoint_ops import ball_query, furthest_point_sample, gather_points, group_points

CLASSES = 40
PYTRITON = program_of("pytriton_app.py", more_ports=2)
JOINED = 16
JOIN_SECONDS = 0.005
TOLERANCE = 1e-4


def shared_mlp(channels: Sequence[int], dimensions: int = 2) -> nn.Sequential:
    """Layers of size 1 over (B, C, ...), each with batch normalization and ReLU."""
    conv, norm = (nn.Conv1d, nn.BatchNorm1d) if dimensions == 1 else (nn.Conv2d, nn.BatchNorm2d)
    layers: list[nn.Module] = []
    for before, after in pairwise(channels):
        layers += [conv(before, after, 1, bias=False), norm(after), nn.ReLU()]
    return nn.Sequential(*layers)


class SetAbstraction(nn.Module):
    """Samples, and for each the maximum over up to k points within the radius.

    Args:
        samples: Points that are kept.
        radius, k: Of the neighborhoods.
        widths: Of the layers, the features that come in first.
    """

    def __init__(self, samples: int, radius: float, k: int, widths: Sequence[int]) -> None:
        super().__init__()
        self.samples, self.radius, self.k = samples, radius, k
        self.mlp = shared_mlp([3 + widths[0], *widths[1:]])

    def forward(self, xyz: Tensor, features: Tensor | None) -> tuple[Tensor, Tensor]:
        """(B, N, 3), (B, C, N) -> the samples (B, M, 3) and their features (B, C', M)."""
        rows = furthest_point_sample(xyz.detach(), self.samples)
        centers = gather_points(xyz.mT, rows).mT
        near, _ = ball_query(xyz, centers, self.radius, self.k)
        grouped = group_points(xyz.mT, near) - centers.mT[..., None]
        if features is not None:
            grouped = torch.cat([grouped, group_points(features, near)], 1)
        return centers, self.mlp(grouped).amax(3)


class PointNet2Classifier(nn.Module):
    """PointNet++ (Qi, Yi, Su and Guibas, NeurIPS 2017) with single-scale grouping.

    Sizes, radii and widths are those of the paper's appendix B.1.
    """

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.near = SetAbstraction(512, 0.2, 32, (0, 64, 64, 128))
        self.far = SetAbstraction(128, 0.4, 64, (128, 128, 128, 256))
        self.all = shared_mlp((3 + 256, 256, 512, 1024), 1)
        head = (*_dense(1024, 512), *_dense(512, 256), nn.Linear(256, classes))
        self.head = nn.Sequential(*head)

    def forward(self, points: Tensor) -> Tensor:
        """(B, N, 3) with N of 512 or more -> logits (B, classes)."""
        samples, features = self.near(points, None)
        samples, features = self.far(samples, features)
        logits: Tensor = self.head(self.all(torch.cat([samples.mT, features], 1)).amax(2))
        return logits


def _dense(before: int, after: int) -> list[nn.Module]:
    return [nn.Linear(before, after), nn.BatchNorm1d(after), nn.ReLU(), nn.Dropout(0.5)]


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
