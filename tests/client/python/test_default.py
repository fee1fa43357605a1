"""`farpoint.sample` and the environment variables that it heeds."""

import pickle

import numpy as np
import pytest

import farpoint
from farpoint._default import default_client

VARIABLES = ("SERVER", "TLS", "CA", "CERTIFICATE", "KEY", "SERVER_NAME", "TOKEN", "TOKEN_FILE")


@pytest.fixture(autouse=True)
def _empty_environment(monkeypatch):
    for name in VARIABLES:
        monkeypatch.delenv(f"FARPOINT_{name}", raising=False)


def test_one_line_samples_by_the_server_of_the_environment(server, client, cloud, monkeypatch):
    monkeypatch.setenv("FARPOINT_SERVER", server.target)
    sample = farpoint.sample(cloud, 9, attributes=cloud, start=4)
    assert np.array_equal(sample.indices, client.sample(cloud, 9, start=4).indices)
    assert np.array_equal(sample.attributes, sample.points)
    assert [len(s) for s in farpoint.sample([cloud, cloud], [2, 3])] == [2, 3]


def test_the_connection_is_kept_until_the_environment_changes(monkeypatch):
    assert default_client().target == "127.0.0.1:50051"
    monkeypatch.setenv("FARPOINT_SERVER", "host:1")
    first = default_client()
    assert default_client() is first
    monkeypatch.setenv("FARPOINT_SERVER", "host:2")
    assert default_client().target == "host:2"


def test_a_token_and_its_file_go_with_the_call(server, cloud, monkeypatch, tmp_path):
    monkeypatch.setenv("FARPOINT_SERVER", server.target)
    monkeypatch.setenv("FARPOINT_TOKEN", "first")
    farpoint.sample(cloud, 1)
    assert server.metadata[-1]["authorization"] == "Bearer first"
    (tmp_path / "token").write_text("second\n")
    monkeypatch.setenv("FARPOINT_TOKEN_FILE", str(tmp_path / "token"))
    farpoint.sample(cloud, 1)
    assert server.metadata[-1]["authorization"] == "Bearer second"


def test_a_missing_token_file_is_named(cloud, monkeypatch, tmp_path):
    monkeypatch.setenv("FARPOINT_TOKEN_FILE", str(tmp_path / "missing"))
    with pytest.raises(farpoint.InvalidArgumentError, match=r"token file .*missing: No such file"):
        farpoint.sample(cloud, 1)


@pytest.mark.parametrize(
    ("name", "value", "tls"),
    [
        ("TLS", "true", farpoint.Tls()),
        ("TLS", "0", False),
        ("SERVER_NAME", "farpoint", farpoint.Tls(server_name="farpoint")),
    ],
)
def test_tls_as_for_the_command_line(monkeypatch, name, value, tls):
    monkeypatch.setenv(f"FARPOINT_{name}", value)
    expected = farpoint.Client("127.0.0.1:50051", tls=tls)
    assert pickle.dumps(default_client()) == pickle.dumps(expected)
