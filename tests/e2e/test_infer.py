"""Infer of a real server: exported programs, each joined in its way, beside their modules."""

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.support.programs import PADDED, RAGGED, Halves, RaggedPool, Segmenter, segmenter_manifest
from tests.support.servers.server_process import RunningServer
from torch import nn

import farpoint
from farpoint_models.programs import Joining, Manifest
from farpoint_models.programs.export import export_program

RANDOM = np.random.default_rng(5)
MODULES: dict[str, tuple[nn.Module, Manifest]] = {
    "segmenter": (Segmenter(), segmenter_manifest()),
    "pool": (RaggedPool(), RAGGED),
    "halves": (Halves(), PADDED),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("programs")
    for name, (module, manifest) in MODULES.items():
        program = export_program(module, manifest, folder / f"{name}.pt2")
        if name == "segmenter":
            shutil.copy(folder / f"{name}.pt2", folder / "alone.pt2")
            alone = replace(program.manifest, joining=Joining.ALONE).to_json()
            (folder / "alone.pt2.json").write_text(alone)
    return folder


@pytest.fixture(scope="module")
def program_server(folder: Path) -> Iterator[RunningServer]:
    flags = ["--encoder", "none", "--admin-listen", "127.0.0.1:0"]
    for name in ("alone", *MODULES):
        flags += ["--model", f"{name}={folder / name}.pt2"]
    server = RunningServer(*flags)
    yield server
    assert server.stop() == 0


@pytest.fixture(scope="module")
def client(program_server: RunningServer) -> Iterator[farpoint.Client]:
    with farpoint.Client(program_server.address) as client:
        yield client


def cloud(n: int) -> np.ndarray:
    return RANDOM.random((n, 3), np.float32)


def eager(points: np.ndarray, color: np.ndarray, label: int) -> dict[str, np.ndarray]:
    """The segmenter itself on one cloud, rows first."""
    with torch.no_grad():
        outputs = MODULES["segmenter"][0](
            torch.from_numpy(points)[None],
            torch.from_numpy(color).mT[None],
            torch.tensor([label]),
        )
    scores, samples, logits = (outputs[name][0].numpy() for name in ("scores", "samples", "logits"))
    return {"scores": scores.T, "samples": samples, "logits": logits}


@pytest.mark.parametrize("model", ["alone", "segmenter"])
def test_outputs_are_those_of_the_module_rows_first(client, model):
    points, color = cloud(100), RANDOM.random((100, 2), np.float32)
    answer = client.infer(model, points, color=color, label=2)
    expected = eager(points, color, 2)
    assert answer.model == model
    assert answer.outputs.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_allclose(answer[name], array, rtol=1e-5, atol=1e-5)
    (only,) = client.infer(model, points, color=color, label=2, outputs=["logits"]).outputs
    assert only == "logits"


def test_clouds_of_any_sizes_are_answered_as_each_by_itself(client):
    clouds = [cloud(n) for n in (30, 200, 8, 30, 77)]
    colors = [RANDOM.random((len(points), 2), np.float32) for points in clouds]
    labels = [0, 1, 2, 3, 0]
    answers = client.infer("segmenter", clouds, color=colors, label=labels)
    for points, color, label, answer in zip(clouds, colors, labels, answers, strict=True):
        for name, array in eager(points, color, label).items():
            np.testing.assert_allclose(answer[name], array, rtol=1e-5, atol=1e-5)


def test_padding_is_in_no_answer(client):
    clouds = [cloud(n) for n in (9, 1, 64, 33)]
    for points, answer in zip(clouds, client.infer("halves", clouds), strict=True):
        assert answer["counts"] == (len(points) + 1) // 2
        picks = farpoint_rows(points)
        np.testing.assert_array_equal(answer["rows"], picks[: int(answer["counts"])])


def farpoint_rows(points: np.ndarray) -> np.ndarray:
    with torch.no_grad():
        rows, _ = Halves()(torch.from_numpy(points)[None], torch.tensor([len(points)]))
    return rows[0].numpy()


def test_ragged_requests_from_many_callers_keep_their_own_rows(client):
    """Some of them share a call."""
    clouds = [cloud(n) for n in RANDOM.integers(1, 400, 40)]
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda points: client.infer("pool", points), clouds))
    for points, answer in zip(clouds, answers, strict=True):
        with torch.no_grad():
            ends = torch.tensor([len(points)])
            features, pooled = MODULES["pool"][0](torch.from_numpy(points), ends)
        np.testing.assert_allclose(answer["features"], features.numpy(), rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(answer["pooled"], pooled[0].numpy(), rtol=1e-5, atol=1e-5)
