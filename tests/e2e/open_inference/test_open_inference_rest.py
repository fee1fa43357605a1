"""The Open Inference Protocol v2 over REST, with the standard library alone."""

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tests.support.servers.http_caller import HTTP, HttpCaller
from tests.support.servers.server_process import RunningServer

CLOUD = np.random.default_rng(6).normal(size=(2, 300, 3)).astype(np.float32)
SHIPPED = "density_small"
TOKEN = "camera-cameracameracamera-secret"
INFER = "/v2/models/fps/infer"


@pytest.fixture(scope="module")
def serving() -> Iterator[RunningServer]:
    with RunningServer(*HTTP, "--admin-listen", "127.0.0.1:0") as server:
        yield server
    assert not [line for line in server.log if line["level"] == "error"]


@pytest.fixture
def http(serving) -> Iterator[HttpCaller]:
    with HttpCaller(serving) as http:
        yield http


def points(**fields: Any) -> dict[str, Any]:
    return {"name": "points", "shape": list(CLOUD.shape), "datatype": "FP32", **fields}


COUNT = {"name": "sample_count", "shape": [1], "datatype": "INT64", "data": [20]}


def post(http: HttpCaller, path: str, fields: Any, binary: bytes = b"", **headers: str):
    text = fields if isinstance(fields, bytes) else json.dumps(fields).encode()
    if binary:
        headers["inference_header_content_length"] = str(len(text))
    return http.request("POST", path, text + binary, **headers)


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
    cloud = np.random.default_rng(1).normal(size=(50_000, 3)).astype(np.float32)
    count = {**COUNT, "data": [50_000]}
    tensor = {"name": "points", "shape": [50_000, 3], "datatype": "FP32"}
    fields = {"inputs": [{**tensor, "parameters": {"binary_data_size": cloud.nbytes}}, count]}
    answer = post(http, INFER, fields, cloud.tobytes())
    assert answer.status == 400
    assert "binary_data for more than 131072 numbers" in answer.json["error"]
    fields["parameters"] = {"binary_data_output": True}
    assert post(http, INFER, fields, cloud.tobytes()).status == 200


def test_tokens_hold_and_their_scopes(start, tmp_path):
    (tmp_path / "tokens").write_text(f"camera sample {TOKEN}\n")
    server = start(
        *HTTP, "--tokens-file", str(tmp_path / "tokens"), "--admin-listen", "127.0.0.1:0"
    )
    with HttpCaller(server) as http:
        known = {"authorization": f"Bearer {TOKEN}"}
        assert http.request("GET", "/v2").status == 401
        assert http.request("GET", "/v2", **known).status == 200
        unload = post(http, f"/v2/repository/models/{SHIPPED}/unload", {}, **known)
        assert unload.status == 403


def test_models_are_unloaded_and_loaded_where_the_address_is_named(http):
    for verb, status in (("unload", 400), ("load", 200)):
        assert post(http, f"/v2/repository/models/{SHIPPED}/{verb}", {}).status == 200
        assert http.request("GET", f"/v2/models/{SHIPPED}/ready").status == status


def test_loading_is_refused_where_the_address_is_not_named(start):
    with HttpCaller(start(*HTTP)) as http:
        answer = post(http, f"/v2/repository/models/{SHIPPED}/unload", {})
        assert answer.status == 501
        assert "--admin-listen" in answer.json["error"]
