"""Containers of the image FARPOINT_IMAGE, run by podman as in docs/deployment.md."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

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
