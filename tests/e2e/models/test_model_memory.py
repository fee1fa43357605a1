"""Memory of served models: weights that an unloaded one gives back, and calls that are bounded."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.support.servers.server_process import RunningServer, wait_until
from torch import Tensor, nn

import farpoint
from farpoint_models.programs import Batching, Manifest, Role, TensorSpec
from farpoint_models.programs.export import export_program

ADMIN = ("--encoder=none", "--admin-listen=127.0.0.1:0")
MIB = 1 << 20
XYZ = TensorSpec("xyz", Role.POINTS, "float32", ("B", "N", 3))
WIDE, LAYERS = 2048, 8  # 16 MiB a layer


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


def peak_mib(server: RunningServer) -> int:
    lines = Path(f"/proc/{server.process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) >> 10 for line in lines if line.startswith("VmHWM:"))


def test_an_unloaded_model_gives_its_weights_back(start, tmp_path):
    logits = TensorSpec("logits", Role.PER_CLOUD, "float32", ("B", 4))
    export_program(Wide(), Manifest(Batching.EQUAL, (XYZ,), (logits,)), tmp_path / "wide.pt2")
    weights = LAYERS * WIDE**2 * 4 // MIB
    server = start(*ADMIN)
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
    server = start(*ADMIN, f"--model=farthest={path}", f"--memory-limit-mib={limit}")
    clouds = np.random.default_rng(3).random((24, 1024, 3), np.float32)
    with farpoint.Client(server.address) as client:
        with pytest.raises(farpoint.ResourceExhaustedError, match="at most") as caught:
            client.infer("farthest", {"xyz": clouds[:16].reshape(-1, 3)})
        assert caught.value.retry_after_s is None
        # All at once would take as much as the refused one.
        answer = client.infer("farthest", {"xyz": clouds})["apart"]
    wanted = torch.cdist(*[torch.from_numpy(clouds)] * 2).amax(2)
    np.testing.assert_allclose(answer, wanted, rtol=1e-3)
    assert peak_mib(server) < limit
