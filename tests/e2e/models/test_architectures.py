"""Published architectures, exported and served, answer as their modules. Weights are random."""

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch
from benchmarks.models.pointnet2 import PointNet2Classifier
from tests.support.servers.server_process import RunningServer
from torch import Tensor, nn

import farpoint
from farpoint_models import DensityEncoder, EncoderConfig, save_encoder
from farpoint_models.programs import Batching, Manifest, Role, TensorSpec
from farpoint_models.programs.export import export_program

SAMPLES = (64, 16)
RANDOM = np.random.default_rng(9)
POINTS = TensorSpec("points", Role.POINTS, "float32", ("B", "N", 3))
LENGTHS = TensorSpec("lengths", Role.LENGTHS, "int64", ("B",))
LOGITS = TensorSpec("logits", Role.PER_CLOUD, "float32", ("B", 10))
ENCODER = EncoderConfig(rates=(0.25,), channels=8, hidden=8, neighbors=8, groups=2)


class Stages(nn.Module):
    """The encoder, whose stages are outputs one after the other."""

    def __init__(self, encoder: DensityEncoder) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, points: Tensor, lengths: Tensor) -> list[Tensor | None]:
        (stage,) = self.encoder(points, lengths=lengths)
        return [stage.indices, stage.features, stage.counts, stage.lengths]


class Architecture(NamedTuple):
    module: nn.Module
    manifest: Manifest
    sizes: tuple[int, ...]
    """Points of the clouds that are asked."""


def per_sample(name: str, dtype: str, *shape: int | str) -> TensorSpec:
    return TensorSpec(name, Role.PER_SAMPLE, dtype, ("B", *shape), counts="kept")


def architectures() -> dict[str, Architecture]:
    torch.manual_seed(3)
    kept = TensorSpec("kept", Role.COUNTS, "int64", ("B",))
    stages = (
        per_sample("indices", "int32", "M"),
        per_sample("features", "float32", 8, "M"),
        per_sample("counts", "int32", "M"),
        kept,
    )
    padded, least = Batching.PADDED, {"N": (SAMPLES[0], None)}
    return {
        "classifier": Architecture(
            PointNet2Classifier(10, 0.125, SAMPLES),
            Manifest(padded, (POINTS, LENGTHS), (LOGITS,), least),
            (100, 64),
        ),
        "encoder": Architecture(
            Stages(DensityEncoder(ENCODER)),
            Manifest(padded, (POINTS, LENGTHS), stages, {"N": (9, None)}),
            (40, 77, 9),
        ),
    }


ALL = architectures()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("architectures")
    save_encoder(ALL["encoder"].module.encoder, folder / "special.safetensors")
    return folder


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[RunningServer]:
    special = f"special={folder / 'special.safetensors'}"
    with RunningServer("--encoder", special, "--admin-listen", "127.0.0.1:0") as server:
        yield server


@pytest.fixture(scope="module")
def load(server: RunningServer, folder: Path) -> Callable[[str], Architecture]:
    """Exports an architecture and has the server load it, the first time."""

    @cache
    def load(name: str) -> Architecture:
        export_program(ALL[name].module, ALL[name].manifest, folder / f"{name}.pt2")
        with farpoint.Client(server.ready["admin_addresses"][0]) as admin:
            admin.load_model(name, str(folder / f"{name}.pt2"), timeout=100)
        return ALL[name]

    return load


def inputs_of(manifest: Manifest, sizes: tuple[int, ...]) -> dict[str, list[np.ndarray]]:
    """Random ones of each cloud, points among them, rows first."""
    found = {}
    for spec in (manifest.points, *manifest.extra_inputs):
        width = spec.row_shape[0]
        found[spec.name] = [RANDOM.random((n, width), np.float32) for n in sizes]
    return found


def eager(module: nn.Module, manifest: Manifest, one: dict[str, np.ndarray]) -> list[np.ndarray]:
    """The output of the module for one cloud, rows first."""
    arguments = []
    for spec in manifest.inputs:
        if spec.role is Role.LENGTHS:
            arguments.append(torch.tensor([len(one["points"])]))
            continue
        arguments.append(torch.from_numpy(one[spec.name])[None])
    with torch.no_grad():
        outputs = module(*arguments)
    tensors = [outputs] if isinstance(outputs, Tensor) else outputs
    return [
        (t.mT if spec.row_axis == 2 else t)[0].numpy()
        for t, spec in zip(tensors, manifest.outputs, strict=True)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_a_served_architecture_answers_as_its_module(client, load, name):
    """Each cloud of a batch, whatever it was joined with, as the module answers to it alone."""
    module, manifest, sizes = load(name)
    given = inputs_of(manifest, sizes)
    clouds = [{key: values[i] for key, values in given.items()} for i in range(len(sizes))]
    for one, answer in zip(clouds, client.infer(name, clouds), strict=True):
        expected = eager(module, manifest, one)
        for spec, array in zip(manifest.outputs, expected, strict=True):
            np.testing.assert_allclose(answer[spec.name], array, rtol=1e-5, atol=1e-5)


@pytest.mark.slow
def test_the_exported_encoder_answers_as_encode(client, load):
    load("encoder")
    points = RANDOM.random((60, 3), np.float32)
    program = client.infer("encoder", {"points": points})
    (stage,) = client.encode(points, model="special").stages
    np.testing.assert_array_equal(program["indices"], stage.indices)
    np.testing.assert_array_equal(program["counts"], stage.counts)
    np.testing.assert_allclose(program["features"], stage.features, rtol=1e-5, atol=1e-5)
