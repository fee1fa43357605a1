"""The Open Inference Protocol v2 over REST: with the standard library and NVIDIA's client."""

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tests.support.servers.http_caller import HTTP, HttpCaller
from tests.support.servers.server_process import RunningServer

SHIPPED = "density_small"
CLOUD = np.random.default_rng(6).normal(size=(2, 300, 3)).astype(np.float32)


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with RunningServer(*HTTP, "--admin-listen", "127.0.0.1:0") as server:
        yield server
    assert not [line for line in server.log if line["level"] == "error"]


@pytest.fixture
def http(server) -> Iterator[HttpCaller]:
    with HttpCaller(server) as http:
        yield http


@pytest.mark.parametrize(
    ("verb", "path", "status"),
    [
        ("GET", "/v2", 200),
        ("GET", "/v2/health/live", 200),
        ("GET", "/v2/health/ready", 200),
        ("GET", "/v2/models/fps", 200),
        ("GET", "/v2/models/fps/versions/1", 200),
        ("GET", "/v2/models/fps/versions/1/config", 200),
        ("GET", "/v2/models/fps/ready", 200),
        ("GET", "/v2/models/none/ready", 400),
        ("GET", "/v2/models/none", 404),
        ("GET", "/v2/models/fps/versions/2", 404),
        ("POST", "/v2/models/fps", 405),
        ("GET", "/v2/models/fps/infer", 405),
        ("GET", "/v2/nothing", 404),
        ("POST", "/v2/nothing", 404),
    ],
)
def test_paths_have_their_statuses(http, verb, path, status):
    assert http.request(verb, path).status == status


def test_many_numbers_are_answered_in_binary_alone(http):
    cloud = np.random.default_rng(1).random((50_000, 3), np.float32)
    points = {"name": "points", "datatype": "FP32", "shape": cloud.shape}
    points["parameters"] = {"binary_data_size": cloud.nbytes}
    count = {"name": "sample_count", "datatype": "INT64", "shape": [1], "data": [50_000]}
    for more, status in (({}, 400), ({"parameters": {"binary_data_output": True}}, 200)):
        text = json.dumps({"inputs": [points, count], **more}).encode()
        size = {"inference_header_content_length": str(len(text))}
        answer = http.request("POST", "/v2/models/fps/infer", text + cloud.tobytes(), **size)
        assert answer.status == status
        assert (status == 200) or "binary_data for more than 131072 numbers" in answer.json["error"]


def test_models_are_unloaded_and_loaded_where_the_address_is_named(http):
    for verb, status in (("unload", 400), ("load", 200)):
        assert http.request("POST", f"/v2/repository/models/{SHIPPED}/{verb}", b"{}").status == 200
        assert http.request("GET", f"/v2/models/{SHIPPED}/ready").status == status


@pytest.fixture(scope="module")
def triton() -> Any:
    # Without geventhttpclient tritonclient.http raises RuntimeError.
    pytest.importorskip("geventhttpclient", reason="tritonclient[http] is not installed")
    return pytest.importorskip("tritonclient.http", reason="tritonclient[http] is not installed")


@pytest.fixture
def over_http(triton: Any, server: RunningServer) -> Iterator[Any]:
    with triton.InferenceServerClient(server.ready["http_address"]) as client:
        yield client


def http_inputs(triton: Any, binary: bool = True) -> list[Any]:
    made = []
    for name, array in (("points", CLOUD), ("sample_count", np.array([20]))):
        made.append(triton.InferInput(name, array.shape, "FP32" if name == "points" else "INT64"))
        made[-1].set_data_from_numpy(array, binary_data=binary)
    return made


def test_over_http_it_sees_server_and_models(over_http):
    assert over_http.is_server_live()
    assert over_http.is_server_ready()
    assert over_http.is_model_ready("fps")
    assert over_http.is_model_ready("fps", "1")
    assert not over_http.is_model_ready("none")
    assert over_http.get_server_metadata()["name"] == "farpoint-server"
    assert over_http.get_model_metadata("fps")["inputs"][0]["shape"] == [-1, 3]
    assert over_http.get_model_config("fps")["max_batch_size"] == 0
    assert "fps" in {model["name"] for model in over_http.get_model_repository_index()}


@pytest.mark.parametrize("binary_out", [True, False, None])
@pytest.mark.parametrize("binary_in", [True, False])
def test_over_http_it_samples(triton, over_http, client, binary_in, binary_out):
    outputs, wanted = None, [sample.indices for sample in client.sample(CLOUD, 20)]
    if binary_out is not None:
        outputs = [triton.InferRequestedOutput("indices", binary_data=binary_out)]
    result = over_http.infer(
        "fps", http_inputs(triton, binary_in), outputs=outputs, request_id="mine"
    )
    np.testing.assert_array_equal(result.as_numpy("indices"), wanted)
    assert result.get_response()["id"] == "mine"
    if outputs is None:
        np.testing.assert_array_equal(result.as_numpy("points")[0], CLOUD[0][wanted[0]])


def test_over_http_an_error_has_its_status_and_text(triton, over_http):
    with pytest.raises(triton.InferenceServerException, match="one of fps") as caught:
        over_http.infer("none", http_inputs(triton))
    assert caught.value.status() == "404"
