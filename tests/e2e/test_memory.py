"""Memory of a running server and its models: returned when idle, trimmed, bounded, exhausted."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import pytest
import torch
from tests.support.command import run_farpoint
from tests.support.servers.server_process import RunningServer, wait_until
from torch import Tensor, nn

import farpoint
from farpoint_models.programs import Batching, Manifest, Role, TensorSpec
from farpoint_models.programs.export import export_program

ADMIN = ("--admin-listen", "127.0.0.1:0")
MIB = 1 << 20
RANDOM = np.random.default_rng(23)
CLOUD = RANDOM.random((1000, 3), np.float32)


@pytest.fixture(scope="module")
def admin_server() -> Iterator[RunningServer]:
    with RunningServer(*ADMIN) as server:
        yield server


@pytest.fixture(scope="module")
def admin(admin_server) -> Iterator[farpoint.Client]:
    with farpoint.Client(admin_server.address) as client:
        yield client


def returned_when_idle(client: farpoint.Client) -> int:
    """Bytes that all idle trims so far have given back."""
    (device,) = client.memory().devices
    return device.trims["idle"].returned_bytes if "idle" in device.trims else 0


def test_a_burst_is_given_back_when_the_server_is_idle(start):
    """16 requests of 12 MB, each over a connection of its own."""
    server = start(*ADMIN, "--memory-idle-s=0.3")
    cloud = RANDOM.random((1_000_000, 3), np.float32)
    clients = [farpoint.Client(server.address) for _ in range(16)]
    for client in clients:
        client.sample(CLOUD, 9)
    clients[0].trim_memory()
    before, returned = server.resident_mib(), returned_when_idle(clients[0])
    with ThreadPoolExecutor(16) as callers:
        list(callers.map(lambda client: client.sample(cloud, 16), clients))
    # What the kernel frees by itself may be enough to come down; the trim comes with idleness.
    wait_until(lambda: returned_when_idle(clients[0]) > returned + 20 * MIB)
    wait_until(lambda: server.resident_mib() < 1.15 * before)
    for client in clients:
        client.close()


def test_get_memory_reports_what_the_device_holds(admin):
    admin.sample(CLOUD, 9)
    memory = admin.memory()
    assert memory.allocator_settings == ""
    (device,) = memory.devices
    assert device.device == "cpu"
    assert device.healthy
    assert memory.resident_bytes > device.allocated_bytes > 10 * MIB
    assert device.reserved_bytes == device.allocated_bytes + device.idle_bytes
    assert 0 < device.free_bytes <= device.total_bytes
    assert (device.out_of_memory_count, device.refused_count, device.limit_bytes) == (0, 0, 0)


def test_memory_that_runs_out_fails_its_request_alone(start):
    server = start(*ADMIN, failing=True)
    with farpoint.Client(server.address) as client:
        clouds = [RANDOM.random((size, 3), np.float32) for size in (900, 1300, 1000, 1100)]
        with pytest.raises(farpoint.ResourceExhaustedError) as caught:
            client.sample(clouds, 9)
        assert caught.value.retry_after_s == 1.0
        good = client.sample([clouds[0], *clouds[2:]], 9)
        assert [len(sample) for sample in good] == [9, 9, 9]
        (device,) = client.memory().devices
        assert device.out_of_memory_count == 1
        assert device.trims["out_of_memory"].count >= 2


def test_a_device_that_fails_for_good_ends_the_process_with_its_own_status(start):
    server = start(*ADMIN, failing=True)
    cloud = RANDOM.random((1301, 3), np.float32)
    with farpoint.Client(server.address) as client, pytest.raises(farpoint.UnavailableError):
        client.sample(cloud, 9)
    assert server.wait() == 3
    assert any(line["event"] == "device failed" for line in server.log)


def test_a_batch_that_still_runs_when_the_device_fails_is_answered(start):
    """The batch is long, and so runs next to that in which the device fails."""
    server = start(failing=True)
    large = RANDOM.random((1_000_000, 3), np.float32)
    with farpoint.Client(server.address) as client, ThreadPoolExecutor() as threads:
        answer = threads.submit(client.sample, large, 100_000)
        with pytest.raises(farpoint.UnavailableError):
            client.sample(large[:50_003], 10_000)
        assert len(answer.result()) == 100_000
    assert server.wait() == 3


def test_what_can_never_fit_is_refused_at_once(start):
    server = start(*ADMIN, "--memory-limit-mib", "400")
    with farpoint.Client(server.address) as client:
        assert len(client.sample(CLOUD, 9)) == 9
        with pytest.raises(farpoint.ResourceExhaustedError, match="at most") as caught:
            client.sample(RANDOM.random((12_000_000, 3), np.float32), 9)
        assert caught.value.retry_after_s is None
        with pytest.raises(farpoint.ResourceExhaustedError, match="at most") as caught:
            client.encode(RANDOM.random((200_000, 3), np.float32))
        assert caught.value.retry_after_s is None
        assert client.memory().devices[0].limit_bytes == 400 * MIB


def test_the_command_shows_memory_and_trims_it(admin_server):
    def run(*flags: str):
        return run_farpoint("memory", "--server", admin_server.address, *flags)

    shown = run()
    assert shown.exit_code == 0, shown.output
    assert "allocated" in shown.output
    (limit,) = [line for line in shown.output.splitlines() if "limit" in line]
    assert "none" in limit
    values = json.loads(run("--json").output)
    assert values["devices"][0]["device"] == "cpu"
    assert "MiB returned" in run("--trim").output
    trims, _ = map(json.loads, run("--trim", "--json").output.splitlines())
    assert trims["device"] == "cpu"


XYZ = TensorSpec("xyz", Role.POINTS, "float32", ("B", "N", 3))
WIDE, LAYERS = 4096, 2  # 64 MiB a layer


class Wide(nn.Module):
    """More weights than anything else in its process."""

    def __init__(self) -> None:
        super().__init__()
        widths = [3, *[WIDE] * (LAYERS + 1), 4]
        self.layers = nn.Sequential(*(nn.Linear(*pair) for pair in pairwise(widths)))

    def forward(self, xyz: Tensor) -> Tensor:
        found: Tensor = self.layers(xyz.amax(1))
        return found


class Farthest(nn.Module):
    """The distance from each point to the one farthest from it, by all distances."""

    def forward(self, xyz: Tensor) -> Tensor:
        return torch.cdist(xyz, xyz).amax(2)


def allocated_mib(client: farpoint.Client) -> int:
    return client.memory().devices[0].allocated_bytes // MIB


def test_an_unloaded_model_gives_its_weights_back(start, tmp_path):
    logits = TensorSpec("logits", Role.PER_CLOUD, "float32", ("B", 4))
    export_program(Wide(), Manifest(Batching.EQUAL, (XYZ,), (logits,)), tmp_path / "wide.pt2")
    weights = LAYERS * WIDE**2 * 4 // MIB
    server = start(*ADMIN, "--encoder=none")
    cloud = np.ones((100, 3), np.float32)
    with farpoint.Client(server.address) as client:
        client.sample(cloud, 9)
        before = allocated_mib(client)
        client.load_model("wide", str(tmp_path / "wide.pt2"))
        client.infer("wide", {"xyz": cloud})
        wait_until(lambda: allocated_mib(client) > before + 3 * weights // 4)
        loaded = server.resident_mib()
        client.unload_model("wide")
        client.trim_memory(force=True)
        # What the first program imports stays: some 25 MiB.
        assert allocated_mib(client) < before + weights // 2
        assert server.resident_mib() < loaded - weights // 2


def test_a_model_of_all_distances_keeps_within_the_limit_by_its_measured_peak(start, tmp_path):
    apart = TensorSpec("apart", Role.PER_POINT, "float32", ("B", "N"))
    manifest = Manifest(Batching.EQUAL, (XYZ,), (apart,))
    path, limit = tmp_path / "farthest.pt2", 1000
    export_program(Farthest(), manifest, path)
    server = start(
        *ADMIN, "--encoder=none", f"--model=farthest={path}", f"--memory-limit-mib={limit}"
    )
    clouds = np.random.default_rng(3).random((24, 1024, 3), np.float32)
    with farpoint.Client(server.address) as client:
        with pytest.raises(farpoint.ResourceExhaustedError, match="at most") as caught:
            client.infer("farthest", {"xyz": clouds[:16].reshape(-1, 3)})
        assert caught.value.retry_after_s is None
        # All at once would take as much as the refused one.
        answer = client.infer("farthest", {"xyz": clouds})["apart"]
    wanted = torch.cdist(*[torch.from_numpy(clouds)] * 2).amax(2)
    np.testing.assert_allclose(answer, wanted, rtol=1e-3)
    assert server.resident_mib("VmHWM") < limit
