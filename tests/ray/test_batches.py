"""Folders and datasets sampled by actors of Ray Data."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.support.ray_cluster import WORKER, kill, wait_until
from tests.support.servers.server_process import RunningServer

from farpoint_ops.arrays import sample_array

pytestmark = [pytest.mark.timeout(900), pytest.mark.filterwarnings("ignore")]
FILES, SAMPLES = 1000, 32


def farpoint(*arguments: object, **variables: str) -> subprocess.Popen[str]:
    words = [str(argument) for argument in arguments]
    return subprocess.Popen(
        [sys.executable, "-m", "farpoint", *words],
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.fixture
def scans(tmp_path: Path) -> Path:
    folder = tmp_path / "scans"
    folder.mkdir()
    generator = np.random.default_rng(0)
    for index in range(FILES):
        cloud = generator.normal(size=(generator.integers(100, 3000), 3))
        # As a local scan, or far out on a map.
        moved = cloud + 5e5 if index % 2 else cloud.astype(np.float32)
        np.save(folder / f"{index:04}.npy", moved)
    return folder


def test_a_folder_survives_its_worker_with_the_bytes_of_a_local_run(nodes, scans, tmp_path):
    arguments = ("sample", scans, "-m", SAMPLES, "--indices")
    server = RunningServer()
    local = farpoint(*arguments, "-o", f"{tmp_path}/local/", "--server", server.address)
    assert local.communicate()[1] == ""
    assert server.stop() == 0

    out = tmp_path / "ray"
    job = farpoint(*arguments, "-o", f"{out}/", "--ray", "-j", 2, RAY_ADDRESS=nodes.address)
    wait_until(lambda: out.is_dir() and len(list(out.glob("*.indices.npy"))) > FILES // 10)
    first = set(nodes.processes(WORKER))
    kill(min(first))
    lines, problems = job.communicate()
    assert job.returncode == 0, problems
    assert [line for line in lines.splitlines() if not line.startswith(str(scans))] == []
    assert len(lines.splitlines()) == FILES
    assert contents(out) == contents(tmp_path / "local")
    assert len(contents(out)) == 2 * FILES

    for path in list(out.glob("00[0-4]*"))[:20]:
        path.unlink()
    more = ("-o", f"{out}/", "--ray", "-j", 2, "--resume")
    lines, problems = farpoint(*arguments, *more, RAY_ADDRESS=nodes.address).communicate()
    assert "files were done before" in problems
    assert 10 <= len(lines.splitlines()) <= 20
    assert contents(out) == contents(tmp_path / "local")


def test_a_dataset_gets_its_samples_beside_its_clouds(nodes):  # noqa: ARG001  of Ray
    import ray

    import farpoint.ray

    clouds = [np.random.default_rng(i).normal(size=(500 + i, 3)) + 1e6 for i in range(20)]
    dataset = ray.data.from_items([{"name": i, "points": c} for i, c in enumerate(clouds)])
    rows = sorted(farpoint.ray.sample_dataset(dataset, 16).take_all(), key=lambda r: r["name"])
    assert len(rows) == len(clouds)
    for row, cloud in zip(rows, clouds, strict=True):
        assert np.array_equal(row["indices"], sample_array(cloud, 16).rows)
        assert row["covering_radius"] == row["distances"][-1] > 0
        assert np.array_equal(row["points"], cloud)
    ended = farpoint.ray.sample_dataset(dataset, 500, radius=1.0).take_all()
    assert all(row["covering_radius"] <= 1 and len(row["indices"]) < 500 for row in ended)
    with pytest.raises(farpoint.InvalidArgumentError, match="indices"):
        farpoint.ray.sample_dataset(ray.data.from_items(rows), 16)
