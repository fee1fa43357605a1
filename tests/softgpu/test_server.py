"""A server on failing and on several devices; tests/gpu/test_server.py has one that works."""

import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from tests.softgpu.conftest import PYTHON
from tests.support.clouds import furthest_points
from tests.support.servers.on_devices import CLOUDS, Start, sample_all, starting
from tests.support.servers.server_process import RunningServer

import farpoint

pytestmark = pytest.mark.skipif(
    Path(sys.prefix).resolve() != PYTHON.parents[1].resolve(), reason="`make gpu-soft` runs it"
)

RANDOM = np.random.default_rng(5)
DEVICE_LOST_STATUS = 3


@pytest.fixture
def control(tmp_path: Path) -> Path:
    return tmp_path / "control"


@pytest.fixture
def findings(tmp_path: Path) -> Path:
    return tmp_path / "findings"


@pytest.fixture
def start(monkeypatch, control, findings) -> Iterator[Start]:
    """Starts servers with flags, a device and settings of the runtime."""
    with starting(monkeypatch) as start_on:

        def start(*flags: str, device: str = "cuda:0", **settings: object) -> RunningServer:
            monkeypatch.setenv("SOFTGPU_CONTROL", str(control))
            monkeypatch.setenv("SOFTGPU_LOG", str(findings))
            for name, value in settings.items():
                monkeypatch.setenv(f"SOFTGPU_{name}", str(value))
            # Its trial would take minutes here.
            return start_on("--encoder", "none", *flags, device=device)

        yield start


def test_a_lost_device_ends_the_server_with_its_own_status(start, control, findings):
    server = start()
    with farpoint.Client(server.address, timeout=60) as client:
        sample_all(client)
        control.write_text("FAIL 1\n")
        with pytest.raises(farpoint.FarpointError):
            client.sample(CLOUDS[1], 12)
    assert server.wait() == DEVICE_LOST_STATUS
    assert "device lost: cudaErrorIllegalAddress" in findings.read_text()


def test_a_hung_device_is_seen_and_the_server_can_be_ended(start, control):
    server = start("--engine-timeout-s", "1", "--drain-timeout-s", "2", "--drain-grace-s", "0")
    with farpoint.Client(server.address, timeout=60) as client:
        sample_all(client)
        control.write_text("HANG 1\n")
        with pytest.raises(farpoint.FarpointError):
            client.sample(CLOUDS[1], 12, timeout=3)
        server.wait_for(lambda line: "hung" in line["event"] or "stuck" in line["event"])
    begun = time.monotonic()
    server.stop()
    assert time.monotonic() - begun < 20


@pytest.mark.parametrize("every", [2, 3, 7])
def test_memory_that_runs_out_now_and_then_loses_and_spoils_no_answer(start, control, every):
    server = start("--memory-idle-s", "1")
    sizes = [RANDOM.random((n, 3), np.float32) for n in (500, 40_000, 900, 120_000) * 4]
    control.write_text(f"MALLOC_FAILS_EVERY {every}\n")

    def ask(cloud: np.ndarray) -> bool:
        with farpoint.Client(server.address, timeout=60) as client:
            try:
                rows = client.sample(cloud, 3).indices
            except farpoint.ResourceExhaustedError:
                return False
        assert rows.tolist() == furthest_points(cloud, 3).tolist()
        return True

    with ThreadPoolExecutor(4) as pool:
        answered = list(pool.map(ask, sizes))
    assert len(answered) == len(sizes)
    control.write_text("MALLOC_FAILS_EVERY 0\n")
    with farpoint.Client(server.address, timeout=60) as client:
        sample_all(client)
    assert server.stop() == 0


def test_memory_that_another_process_holds_is_missed_only_while_it_does(start, control):
    server = start("--memory-idle-s", "1")
    large = RANDOM.random((3_000_000, 3), np.float32)
    with farpoint.Client(server.address, timeout=60) as client:
        sample_all(client)
        control.write_text("TAKEN_MB 7850\n")
        with pytest.raises(farpoint.ResourceExhaustedError):
            client.sample(large, 2)
        sample_all(client)
        control.write_text("TAKEN_MB 0\n")
        assert client.sample(large, 2).indices[0] == 0
    assert server.stop() == 0


@pytest.mark.parametrize(
    ("device", "devices"), [("cuda:0,cuda:1", ["cuda:0", "cuda:1"]), ("auto", ["cpu", "cuda:0"])]
)
def test_engines_of_several_devices_answer_alike(start, findings, device, devices):
    server = start("--http-listen", "127.0.0.1:0", device=device, DEVICES=2)
    with farpoint.Client(server.address, timeout=60) as client, ThreadPoolExecutor(6) as pool:
        assert [each.name for each in client.server_info().devices] == devices
        list(pool.map(lambda _: sample_all(client, 3), range(6)))
    assert server.stop() == 0
    assert findings.read_text() == "" if findings.exists() else True


STARTS_NOT = {
    "driver": ("DRIVER", 12080, "a driver that is too old"),
    "old": ("PROFILE", "T4", "no kernels for compute capability 7.5"),
}


@pytest.mark.parametrize("name", STARTS_NOT)
def test_a_device_that_cannot_work_is_one_clear_line(monkeypatch, name):
    setting, value, text = STARTS_NOT[name]
    monkeypatch.setenv(f"SOFTGPU_{setting}", str(value))
    command = [sys.executable, "-m", "farpoint_server", "--listen", "127.0.0.1:0"]
    command += ["--device", "cuda:0"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert ended.returncode != 0
    last = ended.stderr.strip().splitlines()[-1]
    assert text in last, ended.stderr
    assert "Traceback" not in ended.stderr
