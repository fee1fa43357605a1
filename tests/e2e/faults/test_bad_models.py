"""LoadModel of what is no model: INVALID_ARGUMENT with the reason, and the server still ends."""

import os
import signal
import zipfile
from pathlib import Path

import grpc
import pytest
import torch
from safetensors.torch import save_file
from tests.support.messages import details
from tests.support.servers.server_process import RunningServer

from farpoint.v1 import admin_pb2, admin_pb2_grpc
from farpoint_models.checkpoint import FORMAT


def header(path: Path, config: str) -> None:
    save_file({"a": torch.zeros(1)}, path, {"format": FORMAT, "config": config})


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("models")
    os.mkfifo(folder / "pipe")
    os.mkfifo(folder / "pipe.pt2")
    (folder / "endless.pt2").symlink_to("/dev/zero")
    with zipfile.ZipFile(folder / "bomb.pt2", "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("a/models/model.json", b" " * (64 << 20))
    header(folder / "deep", "[" * 100_000)
    header(folder / "deeper than Python goes", "[" * 4000)
    stages = ",".join(["0.9"] * 100_000)
    header(folder / "stages", f'{{"rates": [{stages}]}}')
    (folder / "long header").write_bytes((2**62).to_bytes(8, "little") + b"{")
    named = {path.name: str(path) for path in folder.iterdir()}
    return named | {"NUL": "a\0b", "folder": str(folder), "long": "x" * (1 << 20)}


@pytest.fixture(scope="module")
def server() -> RunningServer:
    return RunningServer("--admin-listen", "127.0.0.1:0")


def test_each_is_refused_with_the_reason_and_the_server_ends(server, paths):
    assert len(paths) == 11
    address = server.wait_for(lambda line: line["event"] == "ready")["admin_addresses"][0]
    with grpc.insecure_channel(address) as channel:
        stub = admin_pb2_grpc.AdminServiceStub(channel)
        for name, path in paths.items():
            with pytest.raises(grpc.RpcError) as caught:
                stub.LoadModel(admin_pb2.LoadModelRequest(name="model", path=path), timeout=60)
            assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT, name
            (bad_request,) = details(caught.value)
            assert bad_request.field_violations[0].field == "path"
            assert len(caught.value.details()) < 1000, name
    server.signal(signal.SIGTERM)
    assert server.wait() == 0
    assert not [line for line in server.log if line["level"] == "error"]
