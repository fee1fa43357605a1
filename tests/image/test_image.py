"""The image: what it holds and who it runs as, its health check, its answers and its end."""

import re
import socket
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import grpc
import numpy as np
import pytest
from tests.image.conftest import HARDENED, KIND, podman
from tests.support.brute_force import furthest_points
from tests.support.servers.certificates import issue

import farpoint

SIZES = {"cpu": 900e6, "cuda": 3.4e9}
CLOUD = np.random.default_rng(5).normal(size=(2000, 3)).astype(np.float32)
TOKEN = "4e6f7420612073656372657421204e6f7420612073656372657421"


def test_it_runs_without_root_without_capabilities_and_without_writing(container):
    assert container.run("id", "-u").strip() == "10001"
    status = container.run("cat", "/proc/1/status")
    assert re.findall(r"Cap(?:Prm|Eff|Bnd):\s+(\w+)", status) == ["0" * 16] * 3
    assert re.search(r"NoNewPrivs:\s+1", status)
    mounts = {
        line.split()[1]: line.split()[3]
        for line in container.run("cat", "/proc/mounts").splitlines()
    }
    assert "ro" in mounts["/"].split(",")


def test_there_is_nothing_to_install_or_compile_with(container):
    programs = "pip pip3 gcc g++ cc make apt-get"
    search = f"for program in {programs}; do command -v $program; done; true"
    # That of the base itself, which wants a root that may be written.
    assert container.run("sh", "-c", search).split() == ["/usr/bin/apt-get"]
    code = "import importlib.util as u; print(*map(u.find_spec, ['pip', 'setuptools', 'torch']))"
    pip, setuptools, *torch = container.run("python3", "-c", code).split(maxsplit=2)
    assert (pip, setuptools) == ("None", "None")
    assert torch


def test_it_has_labels_and_is_small(configuration):
    assert configuration["Size"] < SIZES[KIND]
    labels = configuration["Labels"]
    names = {name.removeprefix("org.opencontainers.image.") for name in labels}
    assert names >= {"title", "description", "licenses", "version", "revision", "created"}
    assert re.fullmatch("sha256:[0-9a-f]{64}", labels["org.opencontainers.image.base.digest"])
    assert set(configuration["Config"]["ExposedPorts"]) == {"50051/tcp", "8080/tcp"}
    assert configuration["User"] == "10001:10001"


def test_it_answers_as_brute_force_does(container):
    with farpoint.Client(container.address) as client:
        assert client.sample(CLOUD, 64).indices.tolist() == furthest_points(CLOUD, 64).tolist()
        assert client.encode(CLOUD).stages
    with urllib.request.urlopen(f"http://{container.http_address}/metrics", timeout=60) as answer:
        assert (
            b'farpoint_rpcs_total{code="OK",rpc="farpoint.v1.SamplingService/Sample"} 1.0'
            in answer.read()
        )
    with urllib.request.urlopen(f"http://{container.http_address}/", timeout=60) as answer:
        assert b"<script" in answer.read()


def test_a_gpu_that_is_missing_is_named(image):
    done = podman("run", "--rm", *HARDENED, image, "--device=cuda:0", check=False)
    assert done.returncode == 2
    assert re.search({"cpu": "is built without CUDA", "cuda": "finds no GPU"}[KIND], done.stderr)


def test_it_answers_on_a_gpu_as_on_the_cpu(container, start, software_gpu):
    on_gpu = start(device="cuda:0", options=software_gpu)
    with farpoint.Client(container.address) as cpu, farpoint.Client(on_gpu.address) as gpu:
        sample = gpu.sample(CLOUD, 64)
        assert sample.indices.tolist() == furthest_points(CLOUD, 64).tolist()
        assert on_gpu.wait_for("ready")["device"] == "cuda:0"
        for ours, theirs in zip(gpu.encode(CLOUD).stages, cpu.encode(CLOUD).stages, strict=True):
            np.testing.assert_allclose(ours.features, theirs.features, rtol=1e-3, atol=1e-4)


def test_traces_can_be_switched_on(start):
    container = start("--otlp-endpoint=http://127.0.0.1:1")
    with farpoint.Client(container.address) as client:
        assert len(client.sample(CLOUD, 3)) == 3


def test_the_health_check_holds_with_tls_client_certificates_and_tokens(start, tmp_path):
    files = issue(tmp_path / "files")
    (tmp_path / "files" / "tokens").write_text(f"camera sample {TOKEN}\n")
    for path in (files.ca.parent, *files.ca.parent.iterdir()):
        path.chmod(0o755)  # for the user of the image
    with socket.create_server(("127.0.0.1", 0)) as taken:
        probe = f"127.0.0.1:{taken.getsockname()[1]}"
    container = start(
        *("--tls-certificate=/files/certificate.pem", "--tls-key=/files/key.pem"),
        *("--tls-client-ca=/files/ca.pem", "--tokens-file=/files/tokens", "--drain-grace-s=60"),
        options=(f"--volume={files.ca.parent}:/files:ro", f"--env=FARPOINT_PROBE_LISTEN={probe}"),
    )
    tls = farpoint.Tls(files.ca, files.certificate, files.key)
    with farpoint.Client(container.address, tls=tls, token=TOKEN) as client:
        assert len(client.sample(CLOUD, 9)) == 9
    with (
        grpc.insecure_channel(container.address) as channel,
        pytest.raises(grpc.FutureTimeoutError),
    ):
        grpc.channel_ready_future(channel).result(1)
    assert container.is_healthy()
    container.signal("TERM")
    container.wait_for("draining")
    assert not container.is_healthy()
    container.signal("TERM")
    assert container.wait() == 0


def test_sigterm_answers_a_request_that_is_in_flight(start):
    container = start()
    cloud = np.random.default_rng(7).normal(size=(1_000_000, 3)).astype(np.float32)
    with farpoint.Client(container.address, timeout=100) as client, ThreadPoolExecutor(1) as pool:
        answer = pool.submit(client.sample, cloud, 500_000)
        while container_calls(container.http_address) != 1:
            assert not answer.done()
        container.signal("TERM")
        assert container.wait_for("draining")["calls"] == 1
        indices = answer.result().indices
    assert len(set(indices.tolist())) == 500_000
    assert indices[:32].tolist() == furthest_points(cloud, 32).tolist()
    assert container.wait() == 0
    assert container.wait_for("stopped")["unanswered"] == 0


def container_calls(address: str) -> int:
    """Calls that are accepted and not answered."""
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=60) as answer:
        return int(float(re.search(rb"^farpoint_calls (\S+)", answer.read(), re.MULTILINE)[1]))
