"""Encode of a real server: what it answers, and models that come and go under it."""

import json
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import grpc
import numpy as np
import pytest
import torch
from grpc_health.v1 import health_pb2, health_pb2_grpc
from tests.support.command import Result, run_farpoint
from tests.support.servers.server_process import DEVICE, RunningServer

import farpoint
from farpoint.inference import open_inference_pb2, open_inference_pb2_grpc
from farpoint_models import DensityEncoder, EncoderConfig, save_encoder

RANDOM = np.random.default_rng(41)
CLOUD = RANDOM.random((1000, 3), np.float32)
TINY = EncoderConfig(rates=(0.25, 0.5), channels=8, hidden=8, neighbors=8, groups=2)
SHIPPED = "density_small"
MAX_POINTS = 20_000
# A GPU adds the distances of a sample's points in any order.
TOLERANCE = {"rtol": 0, "atol": 0} if DEVICE == "cpu" else {"rtol": 1e-4, "atol": 1e-5}


def write_encoder(path: Path, seed: int, **changes: object) -> DensityEncoder:
    torch.manual_seed(seed)
    encoder = DensityEncoder(EncoderConfig(**{**vars(TINY), **changes})).eval()
    save_encoder(encoder, path)
    return encoder


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("encoders")


@pytest.fixture(scope="module")
def encoders(folder) -> dict[str, DensityEncoder]:
    """Two of random weights, each in the file of its name."""
    return {
        "tiny": write_encoder(folder / "tiny.safetensors", 1),
        "colored": write_encoder(folder / "colored.safetensors", 2, attributes=3),
    }


@pytest.fixture(scope="module")
def server(folder, encoders) -> Iterator[RunningServer]:
    flags = ["--admin-listen", "127.0.0.1:0", "--encoder", "default"]
    flags += ["--max-encode-points", str(MAX_POINTS)]
    for name in encoders:
        flags += ["--encoder", f"{name}={folder / name}.safetensors"]
    with RunningServer(*flags) as server:
        yield server


@pytest.fixture(scope="module")
def admin(server) -> Iterator[farpoint.Client]:
    with farpoint.Client(server.ready["admin_addresses"][0]) as admin:
        yield admin


def features(encoder: DensityEncoder, points: np.ndarray, attributes=None) -> list[np.ndarray]:
    """The output of the module itself, in this process."""
    with torch.inference_mode():
        extra = None if attributes is None else torch.from_numpy(attributes)[None].mT
        stages = encoder(torch.from_numpy(points)[None], extra)
        return [stage.features[0].mT.numpy() for stage in stages]


def test_each_stage_is_a_prefix_of_the_farthest_points_and_counts_every_point(client):
    encoding = client.encode(CLOUD)
    assert encoding.model == SHIPPED
    picks = client.sample(CLOUD, len(CLOUD)).indices
    for stage in encoding.stages:
        np.testing.assert_array_equal(stage.indices, picks[: len(stage)])
        np.testing.assert_array_equal(stage.points, CLOUD[stage.indices])
        assert stage.counts.min() >= 1
        assert stage.counts.sum() == len(CLOUD)
        assert len(stage.features) == len(stage.mean_distances) == len(stage)
        assert np.isfinite(stage.features).all()


def test_features_are_those_of_the_model(client, encoders):
    encoding = client.encode(CLOUD, model="tiny")
    assert [len(stage) for stage in encoding.stages] == [250, 125]
    for stage, expected in zip(encoding.stages, features(encoders["tiny"], CLOUD), strict=True):
        np.testing.assert_allclose(stage.features, expected, rtol=1e-4, atol=1e-5)


def test_a_model_may_take_attributes(client, encoders):
    rgb = RANDOM.random((1000, 3), np.float32)
    stage = client.encode(CLOUD, model="colored", attributes=rgb).stages[0]
    np.testing.assert_allclose(
        stage.features, features(encoders["colored"], CLOUD, rgb)[0], rtol=1e-4, atol=1e-5
    )
    named = {"r": rgb[:, 0], "gb": rgb[:, 1:]}
    same = client.encode(CLOUD, model="colored", attributes=named).stages[0]
    np.testing.assert_allclose(same.features, stage.features, **TOLERANCE)


def test_a_batch_of_any_sizes_is_encoded_as_each_cloud_by_itself(client):
    clouds = [RANDOM.random((n, 3), np.float32) for n in (700, 1, 40, 450, 33)]
    for cloud, encoding in zip(clouds, client.encode(clouds, model="tiny"), strict=True):
        alone = client.encode(cloud, model="tiny")
        for got, expected in zip(encoding.stages, alone.stages, strict=True):
            np.testing.assert_array_equal(got.indices, expected.indices)
            np.testing.assert_array_equal(got.counts, expected.counts)
            np.testing.assert_allclose(got.features, expected.features, rtol=1e-3, atol=1e-4)
    assert client.encode([]) == []


def test_models_are_listed_the_default_first(client):
    models = client.list_models()
    assert [model.name for model in models[:3]] == [SHIPPED, "tiny", "colored"]
    assert models[1].rates == TINY.rates
    assert (models[1].feature_channels, models[2].attribute_channels) == (8, 3)
    assert models[1].parameter_count > 0
    assert [tensor.name for tensor in models[2].inputs] == ["points", "attributes"]
    assert "features_0" in [tensor.name for tensor in models[1].outputs]


def health(server: RunningServer, service: str) -> str:
    with grpc.insecure_channel(server.address) as channel:
        ask = health_pb2.HealthCheckRequest(service=service)
        try:
            answer = health_pb2_grpc.HealthStub(channel).Check(ask)
        except grpc.RpcError as error:
            return error.code().name
        return health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status)


def test_a_model_is_loaded_serves_and_is_unloaded(client, admin, server, folder):
    expected = write_encoder(folder / "extra.safetensors", 3)
    assert health(server, "extra") == "NOT_FOUND"
    model = admin.load_model("extra", folder / "extra.safetensors")
    assert model in client.list_models()
    assert health(server, "extra") == "SERVING"
    got = client.encode(CLOUD, model="extra").stages[0].features
    np.testing.assert_allclose(got, features(expected, CLOUD)[0], rtol=1e-4, atol=1e-5)
    admin.unload_model("extra")
    assert health(server, "extra") == "NOT_FOUND"
    with pytest.raises(farpoint.NotFoundError):
        client.encode(CLOUD, model="extra")
    with pytest.raises(farpoint.NotFoundError):
        admin.unload_model("extra")


def test_the_command_loads_lists_and_unloads_models(admin, server, folder):
    write_encoder(folder / "mine.safetensors", 6)

    def run(*words: object) -> Result:
        return run_farpoint(*words, "--server", server.ready["admin_addresses"][0])

    loaded = run("load", "mine", "--path", folder / "mine.safetensors")
    assert (loaded.exit_code, loaded.stdout[:44]) == (
        0,
        "mine: 2 stages keep 0.25, 0.5 of their point",
    )
    listed = run_farpoint("models", "--json", "--server", server.address).stdout.splitlines()
    assert json.loads(listed[-1])["name"] == "mine"
    assert run("unload", "mine").exit_code == 0
    wrong = run("unload", "mine")
    assert wrong.exit_code == 1
    assert wrong.stderr.startswith("farpoint: ")
    assert "mine" not in [model.name for model in admin.list_models()]


def test_a_file_that_is_not_a_model_is_refused_with_the_reason(admin, server, tmp_path):
    """tests/models has every kind of file."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "endless.pt2").symlink_to("/dev/zero")
    (tmp_path / "long header").write_bytes((2**62).to_bytes(8, "little") + b"{")
    paths = [str(path) for path in tmp_path.iterdir()]
    for path in (*paths, "a\0b", str(tmp_path), "x" * (1 << 20)):
        with pytest.raises(farpoint.InvalidArgumentError) as caught:
            admin.load_model("model", path, timeout=60)
        assert caught.value.field == "path", path[:99]
        assert len(str(caught.value)) < 1000, path[:99]
    assert not [line for line in server.log if line.get("level") == "error"]


def test_requests_in_flight_finish_on_the_model_they_began_with(client, admin, folder):
    """Callers ask until the name is gone: at every change of it, some requests are in flight."""
    old = write_encoder(folder / "old.safetensors", 4)
    new = write_encoder(folder / "new.safetensors", 5)
    cloud = RANDOM.random((4000, 3), np.float32)
    admin.load_model("changing", str(folder / "old.safetensors"))
    answered, unloading = threading.Event(), threading.Event()

    def ask() -> list[np.ndarray]:
        got = []
        with suppress(farpoint.NotFoundError):
            while True:
                got.append(client.encode(cloud, model="changing").stages[-1].features)
                answered.set()
        assert unloading.is_set()
        return got

    with ThreadPoolExecutor(8) as pool:
        callers = [pool.submit(ask) for _ in range(8)]
        assert answered.wait(60)
        admin.load_model("changing", str(folder / "new.safetensors"))
        unloading.set()
        admin.unload_model("changing")
        encodings = [each for caller in callers for each in caller.result()]
    expected = [features(encoder, cloud)[-1] for encoder in (old, new)]
    for got in encodings:
        assert any(np.allclose(got, each, rtol=1e-3, atol=1e-4) for each in expected)
    assert np.allclose(encodings[0], expected[0], rtol=1e-3, atol=1e-4)


async def test_the_async_client_does_the_same(server):
    async with farpoint.AsyncClient(server.address) as client:
        encoding = await client.encode(CLOUD, model="tiny")
        assert encoding.stages[-1].counts.sum() == len(CLOUD)
        assert SHIPPED in [model.name for model in await client.list_models()]


CLOUDS, COLORS = RANDOM.random((2, 2, 300, 3), np.float32)
STAGE = ("indices", "features", "counts", "mean_distances")


@pytest.fixture(scope="module")
def inference(channel):
    return open_inference_pb2_grpc.GRPCInferenceServiceStub(channel)


def outputs(response):
    types = {"INT32": "<i4", "INT64": "<i8", "FP32": "<f4"}
    return {
        tensor.name: np.frombuffer(data, types[tensor.datatype]).reshape(tensor.shape)
        for tensor, data in zip(response.outputs, response.raw_output_contents, strict=True)
    }


def encode_request(points, colors):
    made = open_inference_pb2.ModelInferRequest(model_name="colored", id="the-id")
    for name, array in (("points", points), ("attributes", colors)):
        made.inputs.add(name=name, datatype="FP32", shape=array.shape)
        made.raw_input_contents.append(array.tobytes())
    return made


@pytest.mark.parametrize("one", [False, True], ids=["batch", "one cloud"])
def test_over_open_inference_the_stages_are_those_of_encode(inference, client, one):
    points, colors = (CLOUDS[0], COLORS[0]) if one else (CLOUDS, COLORS)
    response = inference.ModelInfer(encode_request(points, colors))
    assert (response.model_name, response.id) == ("colored", "the-id")
    answer = outputs(response)
    assert list(answer) == [f"{kind}_{i}" for i in (0, 1) for kind in ("lengths", *STAGE)]
    encodings = client.encode(points, model="colored", attributes=colors if one else list(colors))
    for i in (0, 1):
        for kind in STAGE:
            each = [getattr(e.stages[i], kind) for e in ([encodings] if one else encodings)]
            expected = each[0] if one else each
            np.testing.assert_allclose(answer[f"{kind}_{i}"], expected, **TOLERANCE)
        assert (answer[f"lengths_{i}"] == answer[f"indices_{i}"].shape[-1]).all()
