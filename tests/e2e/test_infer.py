"""Exported models through `Client.infer` give the answers of their modules in every batch."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.support.programs import PADDED, RAGGED, Halves, RaggedPool, Segmenter, segmenter_manifest
from tests.support.servers.server_process import RunningServer
from torch import nn

import farpoint
from farpoint_models.programs import Batching, Manifest
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
            alone = replace(program.manifest, batching=Batching.ALONE).to_json()
            (folder / "alone.pt2.json").write_text(alone)
    return folder


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[RunningServer]:
    flags = ["--encoder", "none", "--admin-listen", "127.0.0.1:0"]
    for name in ("alone", *MODULES):
        flags += ["--model", f"{name}={folder / name}.pt2"]
    with RunningServer(*flags) as server:
        yield server


def cloud(n: int) -> np.ndarray:
    return RANDOM.random((n, 3), np.float32)


def eager(points: np.ndarray, color: np.ndarray, label: int) -> dict[str, np.ndarray]:
    """The segmenter itself on one cloud, rows first."""
    with torch.no_grad():
        outputs = MODULES["segmenter"][0](
            torch.from_numpy(points)[None], torch.from_numpy(color).mT[None], torch.tensor([label])
        )
    scores, samples, logits = (outputs[name][0].numpy() for name in ("scores", "samples", "logits"))
    return {"scores": scores.T, "samples": samples, "logits": logits}


@pytest.mark.parametrize("model", ["alone", "segmenter"])
def test_outputs_are_those_of_the_module_rows_first(client, model):
    points, color = cloud(100), RANDOM.random((100, 2), np.float32)
    inputs = {"xyz": points, "color": color, "label": 2}
    answer = client.infer(model, inputs)
    expected = eager(points, color, 2)
    assert answer.model == model
    assert answer.outputs.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_allclose(answer[name], array, rtol=1e-5, atol=1e-5)
    (only,) = client.infer(model, inputs, outputs=["logits"]).outputs
    assert only == "logits"


async def test_the_asyncio_client_gets_the_same(server):
    points = cloud(50)
    async with farpoint.AsyncClient(server.address) as client:
        one = await client.infer("pool", {"xyz": points})
        two = await client.infer("pool", [{"xyz": points}] * 2, outputs=["pooled"])
        assert await client.infer("pool", []) == []
        with pytest.raises(farpoint.InvalidArgumentError, match="each of xyz once"):
            await client.infer("pool", [{"xyz": points}, {"points": points}])
    assert all((answer["pooled"] == one["pooled"]).all() for answer in two)


def test_inputs_and_outputs_of_a_program_are_listed(client):
    models = {model.name: model for model in client.list_models()}
    segmenter = models["segmenter"]
    assert [(t.name, t.scope, t.row_shape) for t in segmenter.inputs] == [
        ("xyz", "point", (3,)),
        ("color", "point", (2,)),
        ("label", "cloud", ()),
    ]
    assert [(t.name, t.scope, t.data_type) for t in models["halves"].outputs] == [
        ("rows", "sample", "int32"),
        ("counts", "cloud", "int64"),
    ]


@pytest.mark.parametrize(
    ("model", "points", "inputs", "field"),
    [
        ("pool", np.full((4, 3), np.nan, np.float32), {}, "inputs[xyz].data"),
        ("segmenter", cloud(7), {"color": np.zeros((7, 2)), "label": 0}, "inputs[xyz].shape"),
        ("segmenter", cloud(8), {"color": np.zeros((8, 2))}, "inputs"),
        ("segmenter", cloud(8), {"color": np.zeros((8, 2)), "label": 4}, "points"),
    ],
)
def test_a_wrong_request_is_refused_by_field_and_the_next_is_served(
    client, model, points, inputs, field
):
    """The last one is what the embedding itself refuses."""
    with pytest.raises(farpoint.InvalidArgumentError) as caught:
        client.infer(model, {"xyz": points, **inputs})
    assert caught.value.field == field
    assert len(client.infer("pool", {"xyz": cloud(9)})["features"]) == 9


def test_every_input_is_sent_whatever_its_name(client):
    """An input called as an argument of `infer` is no argument."""
    with pytest.raises(farpoint.InvalidArgumentError) as caught:
        client.infer("pool", {"xyz": cloud(3), "timeout": np.float32(3), "outputs": np.ones(2)})
    assert caught.value.field == "inputs[1].name"
    with pytest.raises(farpoint.InvalidArgumentError, match="mapping"):
        client.infer("pool", [cloud(3)])


def test_equal_clouds_are_one_request_with_a_dimension_of_clouds(client):
    points = RANDOM.random((2, 20, 3), np.float32)
    answer = client.infer("pool", {"xyz": points})
    for i in range(2):
        alone = client.infer("pool", {"xyz": points[i]})
        np.testing.assert_allclose(answer["features"][i], alone["features"], rtol=1e-5, atol=1e-5)
    assert 0 < answer.timings.compute_ms <= answer.timings.server_ms <= answer.timings.total_ms


def test_built_in_sampling_is_a_model_too(client):
    points = cloud(50)
    answer = client.infer("fps", {"points": points, "sample_count": [7]})
    np.testing.assert_array_equal(answer["indices"], client.sample(points, 7).indices)


def test_encode_refuses_exported_models_and_infer_unknown_ones(client):
    with pytest.raises(farpoint.InvalidArgumentError, match="infer runs others"):
        client.encode(cloud(9), model="pool")
    with pytest.raises(farpoint.NotFoundError, match="alone, segmenter, pool, halves"):
        client.infer("nothing", {"xyz": cloud(9)})
