"""A server on `--device cuda:0`, in `make gpu-check` and, but for large clouds, `make gpu-soft`."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from tests.support.servers.on_devices import Start, sample_all, starting

import farpoint
from farpoint_ops import farthest_point_sample_ragged

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

RANDOM = np.random.default_rng(5)
# Freed by other threads after a trim; the buffers of the burst take ten times as much.
REST_BYTES = 4 << 20
LARGE = ((1024, 64), (16_384, 4096), (120_000, 4096), (200_000, 16_384))
CALLERS = 48


@pytest.fixture
def start(monkeypatch) -> Iterator[Start]:
    with starting(monkeypatch) as start:
        yield start


def sample_all_at(address: str, times: int = 1) -> None:
    with farpoint.Client(address, timeout=60) as client:
        sample_all(client, times)


def on_the_cpu(cloud: np.ndarray, samples: int) -> np.ndarray:
    rows = farthest_point_sample_ragged(torch.from_numpy(cloud), [0, len(cloud)], samples)
    return rows.numpy().ravel()


@pytest.mark.parametrize("device", ["cuda:0", "cpu,cuda:0"])
def test_large_clouds_of_many_callers_are_sampled_as_on_a_cpu(start, device):
    """Scans too, whose distances tie as those of random clouds do not."""
    clouds = [RANDOM.normal(size=(n, 3)).astype(np.float32) for n, _ in LARGE]
    clouds += [np.round(cloud, 2) for cloud in clouds]
    counts = [samples for _, samples in LARGE] * 2
    expected = [on_the_cpu(*case) for case in zip(clouds, counts, strict=True)]
    server = start(device=device)

    def ask(caller: int) -> None:
        with farpoint.Client(server.address, timeout=60) as client:
            for turn in range(len(clouds)):
                i = (caller + turn) % len(clouds)
                sample = client.sample(clouds[i], counts[i])
                np.testing.assert_array_equal(sample.indices, expected[i])

    ask(0)
    with ThreadPoolExecutor(CALLERS) as pool:
        list(pool.map(ask, range(CALLERS)))
    assert server.stop() == 0
    assert server.log[-1]["unanswered"] == 0


def test_engines_of_a_cpu_and_a_gpu_answer_alike(start):
    server = start(device="cpu,cuda:0")
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda _: sample_all_at(server.address, 3), range(6)))
    assert server.stop() == 0


def test_two_processes_share_a_device(start):
    server = start("--processes", "2")
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda _: sample_all_at(server.address), range(6)))
    assert server.stop() == 0


def test_what_a_burst_reserved_is_given_back_when_the_server_is_idle(start):
    server = start("--admin-listen", "127.0.0.1:0", "--memory-idle-s", "2")
    with farpoint.Client(server.address, timeout=100) as client:
        # An idle trim takes place where 64 MiB or more come back, which the last cloud alone
        # exceeds: 24 MB in its message, and as much on the device and pinned.
        for n in (400_000, 300_000, 2_000_000):
            client.sample(RANDOM.random((n, 3), np.float32), 2)
        address = server.ready["admin_addresses"][0]
        with farpoint.Client(address, timeout=60) as admin:
            give_up = time.monotonic() + 60
            while time.monotonic() < give_up:
                (device,) = admin.memory().devices
                if "idle" in device.trims and device.host_releasable_bytes < REST_BYTES:
                    break
                time.sleep(0.1)
    lines = [line for line in server.log if "request_id" not in line]
    assert "idle" in device.trims, (device, lines)
    assert device.host_releasable_bytes < REST_BYTES, (device, lines)
    returned = device.trims["idle"].returned_bytes
    cached = device.reserved_bytes - device.allocated_bytes
    assert returned >= 0.9 * (cached + returned), (device, lines)


def test_a_hidden_gpu_is_one_clear_line():
    command = [sys.executable, "-m", "farpoint_server", "--listen", "127.0.0.1:0"]
    ended = subprocess.run(
        [*command, "--device", "cuda:0"],
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert ended.returncode != 0
    last = ended.stderr.strip().splitlines()[-1]
    assert "CUDA_VISIBLE_DEVICES may hide a GPU" in last, ended.stderr
    assert "Traceback" not in ended.stderr
