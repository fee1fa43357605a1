"""The image: what it holds and who it runs as, its health check, its answers and its end."""

import json
import os
import re
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from tests.support.clouds import furthest_points
from tests.support.servers.certificates import issue

import farpoint

IMAGE = os.environ.get("FARPOINT_IMAGE", "")
KIND = IMAGE.rpartition(":")[2]  # cpu or cuda
SOFTGPU = Path(__file__).resolve().parents[2] / "build" / "softgpu"
HARDENED = ("--read-only", "--tmpfs=/tmp", "--cap-drop=ALL", "--security-opt=no-new-privileges")


def podman(*arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    command = ["podman", *arguments]
    return subprocess.run(command, check=check, capture_output=True, text=True, timeout=100)


class Container:
    """A server of the image, on ports of loopback that are free; ready when it is made."""

    def __init__(self, *flags: str, device: str = "cpu", options: tuple[str, ...] = ()) -> None:
        listen = ("--listen=127.0.0.1:0", "--http-listen=127.0.0.1:0", f"--device={device}")
        options = ("--network=host", "--env=FARPOINT_PROBE_LISTEN=127.0.0.1:0", *HARDENED, *options)
        command = ("run", "--detach", *options, IMAGE, *listen, *flags)
        self.id = podman(*command).stdout.strip()
        self.pid = int(podman("inspect", "--format={{.State.Pid}}", self.id).stdout)
        ready = self.wait_for("ready")
        self.address, self.http_address = ready["address"], ready["http_address"]

    @property
    def log(self) -> list[dict[str, Any]]:
        lines = podman("logs", self.id).stderr.splitlines()
        return [json.loads(line) for line in lines if line.startswith("{")]

    def wait_for(self, event: str) -> dict[str, Any]:
        """The first line of the log of an event, also if it is still to come."""
        give_up, is_up = time.monotonic() + 100, True
        while time.monotonic() < give_up and is_up:
            is_up = podman("inspect", "--format={{.State.Running}}", self.id).stdout == "true\n"
            for line in self.log:
                if line["event"] == event:
                    return line
            time.sleep(0.1)
        raise AssertionError(f"no {event}: {podman('logs', self.id).stderr}")

    def run(self, *command: str) -> str:
        """Standard output of a command within."""
        return podman("exec", self.id, *command).stdout

    def is_healthy(self) -> bool:
        """The answer of the image's health check."""
        return podman("healthcheck", "run", self.id, check=False).returncode == 0

    def signal(self, name: str) -> None:
        os.kill(self.pid, signal.Signals[f"SIG{name}"])  # podman takes a second on a busy machine

    def wait(self) -> int:
        """The exit status."""
        return int(podman("wait", self.id).stdout)


@pytest.fixture(scope="session", autouse=True)
def image() -> str:
    if not IMAGE:
        pytest.skip("needs an image in FARPOINT_IMAGE: make image-test")
    return IMAGE


@pytest.fixture(scope="session")
def start() -> Iterator[Callable[..., Container]]:
    """Starts containers, which do not outlive the tests."""
    containers: list[str] = []

    def start(*flags: str, **options: Any) -> Container:
        container = Container(*flags, **options)
        containers.append(container.id)
        return container

    yield start
    for container in containers:
        podman("rm", "--force", "--time=0", container)


@pytest.fixture(scope="session")
def container(start: Callable[..., Container]) -> Container:
    return start()


@pytest.fixture
def software_gpu(container: Container) -> tuple[str, ...]:
    """Options of podman that put the software CUDA runtime in place of CUDA's libraries."""
    if KIND != "cuda" or not (SOFTGPU / "installed").exists():
        pytest.skip("needs the CUDA image and the software CUDA runtime: make gpu-soft")
    code = "import torch; print(torch.__path__[0], torch.__version__)"
    path, version = container.run("python3", "-c", code).split()
    there = Path(path).parent
    (here,) = (SOFTGPU / "venv").glob("lib/python3*/site-packages")
    if not (here / f"torch-{version.partition('+')[0]}.dist-info").exists():
        pytest.skip(f"needs the runtime under the image's torch: SOFTGPU_TORCH={version}")
    mounts = {
        SOFTGPU / "packages" / "farpoint_ops" / "lib": Path("/opt/app/farpoint_ops/lib"),
        here / "nvidia" / "cu13" / "lib": there / "nvidia" / "cu13" / "lib",
        here / "softgpu_start.py": there / "softgpu_start.py",
        here / "softgpu.pth": there / "softgpu.pth",
    }
    return tuple(f"--volume={source}:{target}:ro" for source, target in mounts.items())


@pytest.fixture(scope="session")
def configuration(image: str) -> dict[str, Any]:
    """The image's configuration."""
    (found,) = json.loads(podman("image", "inspect", image).stdout)
    return found


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
