"""The Open Inference Protocol v2 over REST, with the standard library alone."""

import json
from collections.abc import Iterator

import numpy as np
import pytest
from tests.support.servers.http_caller import HTTP, HttpCaller
from tests.support.servers.server_process import RunningServer

SHIPPED = "density_small"


@pytest.fixture(scope="module")
def serving() -> Iterator[RunningServer]:
    with RunningServer(*HTTP, "--admin-listen", "127.0.0.1:0") as server:
        yield server
    assert not [line for line in server.log if line["level"] == "error"]


@pytest.fixture
def http(serving) -> Iterator[HttpCaller]:
    with HttpCaller(serving) as http:
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
