"""A server and `sample_array` choose the same rows, also in the workers of a DataLoader."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset

import farpoint
from farpoint_ops.arrays import sample_array

ROOT = Path(__file__).resolve().parents[2]
M = 50


class Rows(Dataset):
    """The rows that a client chooses of six clouds of several sizes, or `sample_array` does."""

    def __init__(self, client: farpoint.Client | None) -> None:
        self.client = client

    def __len__(self) -> int:
        return 6

    def __getitem__(self, i: int) -> np.ndarray:
        points = np.random.default_rng(i).random((300 + 10 * i, 3), np.float32)
        return (
            self.client.sample(points, M).indices if self.client else sample_array(points, M).rows
        )


def rows(client: farpoint.Client | None, **options: object) -> torch.Tensor:
    return torch.cat(list(DataLoader(Rows(client), batch_size=3, **options)))


@pytest.mark.parametrize("dtype", ["f2", "f4", ">f4", "f8", "i2", "i4", "u8"])
def test_every_dtype(client, dtype):
    points = np.random.default_rng(0).uniform(0, 30_000, (4000, 3)).astype(dtype)
    expected = sample_array(points, M, start=17).rows
    assert np.array_equal(client.sample(points, M, start=17).indices, expected)


def test_forked_workers_of_a_data_loader_sample_remotely(server):
    """In a process that has not used gRPC: each worker opens the client that it inherits."""
    program = (
        "import sys, farpoint\n"
        "from tests.e2e.test_pipelines import rows\n"
        "options = dict(num_workers=2, multiprocessing_context='fork')\n"
        "print(rows(farpoint.Client(sys.argv[1]), **options).equal(rows(None)))\n"
    )
    command = [sys.executable, "-c", program, server.address]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert ended.stdout == "True\n", ended.stderr


def test_spawned_workers_of_a_data_loader_sample_remotely(client):
    """They unpickle the client and connect."""
    found = rows(client, num_workers=1, multiprocessing_context="spawn")
    assert found.equal(rows(None))
