"""NVIDIA's own client over HTTP, unmodified, against a real server."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tests.support.servers.http_caller import HTTP
from tests.support.servers.server_process import RunningServer

import farpoint

# Without it tritonclient.http raises RuntimeError.
pytest.importorskip("geventhttpclient", reason="tritonclient[http] is not installed")
triton = pytest.importorskip("tritonclient.http", reason="tritonclient[http] is not installed")


CLOUD = np.random.default_rng(6).normal(size=(2, 300, 3)).astype(np.float32)
SHIPPED = "density_small"


@pytest.fixture(scope="module")
def serving() -> Iterator[RunningServer]:
    server = RunningServer(*HTTP, "--admin-listen", "127.0.0.1:0")
    yield server
    assert server.stop() == 0


@pytest.fixture(scope="module")
def wanted(serving: RunningServer) -> list[np.ndarray]:
    with farpoint.Client(serving.address) as client:
        return [sample.indices for sample in client.sample(CLOUD, 20)]


@pytest.fixture
def stock(serving) -> Iterator[Any]:
    ready = serving.wait_for(lambda line: line["event"] == "ready")
    with triton.InferenceServerClient(ready["http_address"]) as client:
        yield client


def inputs(binary: bool) -> list[Any]:
    made = []
    for name, array, kind in (("points", CLOUD, "FP32"), ("sample_count", np.array([20]), "INT64")):
        tensor = triton.InferInput(name, array.shape, kind)
        tensor.set_data_from_numpy(array, binary_data=binary)
        made.append(tensor)
    return made


def test_nvidias_client_sees_server_and_models(stock):
    assert stock.is_server_live()
    assert stock.is_server_ready()
    assert stock.is_model_ready("fps")
    assert stock.is_model_ready("fps", "1")
    assert not stock.is_model_ready("none")
    assert stock.get_server_metadata()["name"] == "farpoint-server"
    assert stock.get_model_metadata("fps")["inputs"][0]["shape"] == [-1, 3]
    assert stock.get_model_config("fps")["max_batch_size"] == 0
    assert stock.get_inference_statistics("fps")["model_stats"][0]["name"] == "fps"
    assert "fps" in {model["name"] for model in stock.get_model_repository_index()}


@pytest.mark.parametrize("binary_out", [True, False, None])
@pytest.mark.parametrize("binary_in", [True, False])
def test_nvidias_client_samples(stock, wanted, binary_in, binary_out):
    outputs = None
    if binary_out is not None:
        outputs = [triton.InferRequestedOutput("indices", binary_data=binary_out)]
    result = stock.infer("fps", inputs(binary_in), outputs=outputs, request_id="mine")
    np.testing.assert_array_equal(result.as_numpy("indices"), wanted)
    assert result.get_response()["id"] == "mine"
    if outputs is None:
        np.testing.assert_array_equal(result.as_numpy("points")[0], CLOUD[0][wanted[0]])


def test_nvidias_client_samples_asynchronously(stock, wanted):
    requests = [stock.async_infer("fps", inputs(True)) for _ in range(5)]
    for request in requests:
        np.testing.assert_array_equal(request.get_result().as_numpy("indices"), wanted)


def test_nvidias_client_reads_what_failed(stock):
    with pytest.raises(triton.InferenceServerException, match="one of fps") as caught:
        stock.infer("none", inputs(True))
    assert caught.value.status() == "404"


def test_nvidias_client_unloads_and_loads(stock):
    stock.unload_model(SHIPPED)
    assert not stock.is_model_ready(SHIPPED)
    stock.load_model(SHIPPED)
    assert stock.is_model_ready(SHIPPED)
