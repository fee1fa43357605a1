"""The transform samples the same points in this process and on a server, in torch's pipelines."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.support.servers.server_process import RunningServer
from torch.utils.data import DataLoader, Dataset

import farpoint
from farpoint.transforms import FarthestPointSample

ROOT = Path(__file__).resolve().parents[2]
M = 50


@pytest.fixture(scope="module")
def server():
    with RunningServer() as running:
        yield running.address


@pytest.fixture
def both(server):
    """The outputs of the two switches for the same data, which have to be equal."""

    def sample(data, **options):
        local = FarthestPointSample(M, **options)(data)
        remote = FarthestPointSample(M, server=server, **options)(data)
        assert np.array_equal(np.asarray(local), np.asarray(remote))
        return local

    return sample


class Clouds(Dataset):
    """Six clouds of several sizes as dicts of tensors."""

    def __init__(self, transform) -> None:
        self.transform = transform

    def __len__(self) -> int:
        return 6

    def __getitem__(self, i: int) -> dict:
        points = np.random.default_rng(i).normal(size=(300 + 10 * i, 3)).astype(np.float32)
        data = {"coord": torch.from_numpy(points), "row": torch.arange(len(points)), "label": i}
        return self.transform(data)


@pytest.mark.parametrize("dtype", ["f2", "f4", ">f4", "f8", "i2", "i4", "u8"])
def test_every_dtype(both, dtype):
    points = np.random.default_rng(0).uniform(0, 30_000, (4000, 3))
    both(points.astype(dtype), start=17)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_tensors_stay_tensors(server, dtype):
    points = torch.randn(900, 6, generator=torch.Generator().manual_seed(1)).to(dtype)
    local = FarthestPointSample(M)(points)
    assert local.dtype is dtype
    assert torch.equal(local, FarthestPointSample(M, server=server)(points))


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_rows_that_are_not_finite(both, server, dtype):
    points = np.random.default_rng(0).normal(size=(400, 3)).astype(dtype) + 1e5
    points[[0, 7, 30], 1] = np.nan, np.inf, -np.inf
    assert np.isfinite(both(points, nonfinite="ignore")).all()
    for where in (None, server):
        with pytest.raises(farpoint.InvalidArgumentError, match="NaN or infinity"):
            FarthestPointSample(M, server=where)(points)
        few = FarthestPointSample(M, server=where, nonfinite="ignore", fewer="keep")
        with pytest.raises(farpoint.InvalidArgumentError, match="finite"):
            few(points[:40])


def rows(transform: FarthestPointSample, **options: object) -> torch.Tensor:
    """The rows that a DataLoader's workers choose, (6, M)."""
    loader = DataLoader(Clouds(transform), batch_size=3, **options)
    return torch.cat([batch["row"] for batch in loader])


def test_forked_workers_of_a_data_loader_sample_remotely(server):
    """In a process that has not used gRPC: each worker opens the client that it inherits."""
    program = (
        "import sys\n"
        "from tests.e2e.test_transforms import FarthestPointSample, M, rows\n"
        "transform = FarthestPointSample(M, server=sys.argv[1])\n"
        "kept = rows(transform, num_workers=2, multiprocessing_context='fork')\n"
        "print(kept.tolist() == rows(FarthestPointSample(M)).tolist())\n"
    )
    command = [sys.executable, "-c", program, server]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert ended.stdout == "True\n", ended.stderr


def test_spawned_workers_of_a_data_loader_sample_remotely(server):
    """They unpickle the transform and connect."""
    transform = FarthestPointSample(M, server=server)
    kept = rows(transform, num_workers=1, multiprocessing_context="spawn")
    assert torch.equal(kept, rows(FarthestPointSample(M)))
