"""Each architecture of the zoo, served: the answer to a cloud is that of its module alone."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.models.zoo.entries import ZOO, check, eager, request
from tests.support.servers.server_process import RunningServer

import farpoint
from farpoint_models.programs import Manifest
from farpoint_models.programs.export import export_program

# The first test waits for all exports.
pytestmark = pytest.mark.timeout(600)
CALLERS = 8
MODULES = {name: entry.module() for name, entry in ZOO.items()}
# One of each kind of batching, input and output; an export of each other takes seconds.
QUICK = {"part_segmenter", "point_transformer", "votenet", "masked_pointnet", "registration"}
every_model = pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n in QUICK else pytest.mark.slow) for n in ZOO]
)


@pytest.fixture(scope="session")
def archives(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    """Of the models that tests ask for."""
    calls = [getattr(item, "callspec", None) for item in request.session.items]
    names = {call.params.get("name") for call in calls if call} & ZOO.keys()
    folder = tmp_path_factory.mktemp("zoo")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    paths = {name: folder / f"{name}.pt2" for name in names}
    for name, path in paths.items():
        export_program(MODULES[name], ZOO[name].manifest, path)
    torch.set_num_threads(threads)
    return paths


@pytest.fixture(scope="session")
def server(archives: dict[str, Path]) -> Iterator[RunningServer]:
    flags = [f"--model={name}={path}" for name, path in archives.items()]
    with RunningServer("--encoder=none", *flags) as server:
        yield server


@pytest.fixture(scope="session")
def client(server: RunningServer) -> Iterator[farpoint.Client]:
    with farpoint.Client(server.address) as client:
        yield client


def least(manifest: Manifest) -> int:
    return manifest.limit("N")[0]


@every_model
def test_one_caller_gets_the_answers_of_the_module(client, name):
    manifest = ZOO[name].manifest
    for seed, points in enumerate((least(manifest), least(manifest) + 37, 300)):
        inputs = request(manifest, points, seed, own=4 + points // 2)
        check(client.infer(name, inputs), eager(MODULES[name], manifest, inputs))


@every_model
def test_callers_at_the_same_time_get_the_answers_that_each_gets_alone(client, name):
    """Half of the clouds are of one size, so that they share calls whatever the batching."""
    manifest = ZOO[name].manifest
    sizes = [100 if seed % 4 < 2 else 100 + seed for seed in range(2 * CALLERS)]
    inputs = [
        request(manifest, points, seed, own=20 + seed % 3) for seed, points in enumerate(sizes)
    ]
    expected = [eager(MODULES[name], manifest, each) for each in inputs]
    with ThreadPoolExecutor(CALLERS) as pool:
        answers = list(pool.map(lambda each: client.infer(name, each), inputs))
    for answer, wanted in zip(answers, expected, strict=True):
        check(answer, wanted)


@every_model
def test_a_batch_of_clouds_is_answered_cloud_by_cloud(client, name):
    manifest = ZOO[name].manifest
    inputs = [request(manifest, points, seed) for seed, points in enumerate((60, 111, 60, 95))]
    answers = client.infer(name, inputs)
    for each, answer in zip(inputs, answers, strict=True):
        check(answer, eager(MODULES[name], manifest, each))


@every_model
def test_a_stock_client_gets_the_answers_of_the_module(server, name):
    """Two clouds of one size in one request, as tritonclient sends them."""
    triton = pytest.importorskip("tritonclient.grpc", reason="tritonclient[grpc] is not installed")
    manifest = ZOO[name].manifest
    inputs = [request(manifest, 80, seed) for seed in (0, 1)]
    sent = []
    for key in inputs[0]:
        array = np.stack([each[key] for each in inputs])
        kind = {"float32": "FP32", "int64": "INT64"}[array.dtype.name]
        sent.append(triton.InferInput(key, array.shape, kind))
        sent[-1].set_data_from_numpy(array)
    with triton.InferenceServerClient(server.address) as stock:
        answer = stock.infer(name, sent)
    for place, each in enumerate(inputs):
        expected = eager(MODULES[name], manifest, each)
        check({key: answer.as_numpy(key)[place] for key in expected}, expected)
