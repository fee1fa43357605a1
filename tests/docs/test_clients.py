"""docs/clients.md: the commands for curl run, and so does the Node client, with packages of npm."""

import shutil
import subprocess

import numpy as np
import pytest
from tests.support.pages import ROOT, code_blocks
from tests.support.servers.server_process import RunningServer

import farpoint

PACKAGES = ("@grpc/grpc-js", "@grpc/proto-loader")
PREFIX = ROOT / "build" / "node"


@pytest.fixture(scope="session")
def node() -> str:
    """The path of node, with the packages installed once for all checkouts of the folder."""
    program, npm = shutil.which("node"), shutil.which("npm")
    if program is None or npm is None:
        pytest.skip("the optional extra node with npm")
    if not all((PREFIX / "node_modules" / name).is_dir() for name in PACKAGES):
        options = ["--no-audit", "--no-fund", "--fetch-retries=0", "--fetch-timeout=20000"]
        command = [npm, "install", "--prefix", str(PREFIX), *options, *PACKAGES]
        PREFIX.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(command, capture_output=True, text=True, timeout=100)
        if done.returncode:
            pytest.skip(f"the optional extra {' '.join(PACKAGES)}, which npm cannot install here")
    return program


def test_the_node_client_samples(node: str, server: RunningServer) -> None:
    (code,) = code_blocks("clients.md", "js")
    done = subprocess.run(
        [node, "-e", code.replace("127.0.0.1:50051", server.address)],
        cwd=ROOT,
        env={"NODE_PATH": str(PREFIX / "node_modules"), "PATH": ""},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    rows = np.array(done.stdout.split(), dtype=np.int64)
    assert rows[0] == 0
    assert len(np.unique(rows)) == 256
    assert 0 <= rows.min() <= rows.max() < 10_000


def test_curl_samples_a_scan(server: RunningServer) -> None:
    if missing := [name for name in ("bash", "curl", "base64", "od") if not shutil.which(name)]:
        pytest.skip(f"the optional extra {', '.join(missing)}")
    (code,) = code_blocks("clients.md", "bash")
    http = server.wait_for(lambda line: line["event"] == "ready")["http_address"]
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", code.replace("127.0.0.1:8080", http)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    with farpoint.Client(server.address) as client:
        cloud = farpoint.io.read_cloud(ROOT / "tests" / "data" / "street_kitti_part.bin")
        wanted = client.sample(cloud.points, 8)
    assert list(map(int, done.stdout.split())) == wanted.indices.tolist()
