"""Folders by Ray, whose part is played here: the plan, the order, what fails, what was done."""

import json
import random
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from typer.testing import CliRunner

from farpoint.cli.app import app
from farpoint_ops.arrays import sample_array


class Rows:
    """A dataset whose rows come in any order, from a process that is this one."""

    def __init__(self, items, override_num_blocks):
        assert override_num_blocks >= len(items) / 8
        self._items = items

    def map(self, actor, fn_constructor_args, num_cpus, num_gpus, compute):
        device = fn_constructor_args[-1]
        asked.append({"num_gpus": num_gpus, "actors": compute, "device": device})
        assert num_cpus == 1
        fn_constructor_args = (*fn_constructor_args[:-1], "cpu")  # whatever was asked for
        made = actor(*fn_constructor_args)
        random.Random(0).shuffle(self._items)
        self._rows = map(made, self._items)
        return self

    def iter_rows(self):
        print("what Ray says of a worker")
        return self._rows


asked: list[dict[str, float]] = []


@pytest.fixture(autouse=True)
def ray(monkeypatch):
    asked.clear()
    data = SimpleNamespace(
        DataContext=SimpleNamespace(get_current=SimpleNamespace),
        ActorPoolStrategy=lambda size: size,
        from_items=Rows,
    )
    fake = SimpleNamespace(
        data=data,
        is_initialized=lambda: True,
        put=lambda value: value,
        get=lambda value: value,
        cluster_resources=lambda: {"CPU": 3.0, "GPU": 1.0},
    )
    monkeypatch.setitem(sys.modules, "ray", fake)
    monkeypatch.setitem(sys.modules, "ray.data", data)


@pytest.fixture
def scans(tmp_path):
    made = tmp_path / "scans"
    made.mkdir()
    for index in range(9):
        cloud = np.random.default_rng(index).normal(size=(50 + index, 3)) + 1e6 * (index % 2)
        np.save(made / f"{index}.npy", cloud)
    return made


def sample(*arguments):
    words = [str(argument) for argument in arguments]
    return CliRunner().invoke(app, ["sample", *words, "--ray"])


def test_indices_lie_beside_the_clouds_and_lines_in_their_order(scans):
    result = sample(scans, "-m", 7, "--indices", "--json")
    assert result.exit_code == 0, result.output
    inputs = [json.loads(line)["input"] for line in result.stdout.splitlines()]
    assert inputs == [str(scans / f"{index}.npy") for index in range(9)]
    assert "what Ray says of a worker" in result.stderr
    for index in range(9):
        cloud, rows = np.load(scans / f"{index}.npy"), np.load(scans / f"{index}.indices.npy")
        assert np.array_equal(rows, sample_array(cloud, 7).rows)


def test_what_is_done_is_left_out(scans):
    assert sample(scans, "-m", 7, "--indices").exit_code == 0
    (scans / "4.indices.npy").unlink()
    result = sample(scans, "-m", 7, "--indices", "--resume")
    assert result.exit_code == 0
    assert [line.split()[0] for line in result.stdout.splitlines()] == [str(scans / "4.npy")]
    assert "8 of 9 files were done before" in result.stderr
    assert sample(scans, "-m", 7, "--indices", "--resume").stdout == ""


def test_a_file_that_fails_fails_alone(scans, tmp_path):
    (scans / "3.npy").write_bytes(b"no array")
    result = sample(scans, "-m", 55, "-o", f"{tmp_path}/out/")
    assert result.exit_code == 1
    assert len(result.stdout.splitlines()) == 4
    assert f"{scans}/3.npy: " in result.stderr
    assert f"{scans}/0.npy: -m must be from 1 to the 50 points" in result.stderr
    assert not (tmp_path / "out" / "3.npy").exists()


def test_actors_fill_the_cluster_unless_there_is_a_number(scans, tmp_path):
    out = ("-m", 7, "-o", f"{tmp_path}/out/")
    sample(scans, *out)
    sample(scans, *out, "--gpus", 0.5)
    sample(scans, *out, "-j", 40)
    assert [job["actors"] for job in asked] == [3, 2, 9]
    assert [job["num_gpus"] for job in asked] == [0, 0.5, 0]
    assert [job["device"] for job in asked] == ["cpu", "cuda", "cpu"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-o", "-"], "--ray takes files, and writes files"),
        (["-o", "out.npy", "--gpus", "2"], "which is not enough for one actor"),
        (["-o", "out.npy", "--gpus", "-1"], "--gpus must be 0 or more, got -1"),
    ],
)
def test_what_ray_does_not_do(scans, arguments, said, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    result = sample(scans / "0.npy", "-m", 7, *arguments)
    assert result.exit_code == 2
    assert said in result.stderr


def test_without_ray_one_sentence_says_what_to_install(scans, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    result = sample(scans, "-m", 7, "--indices")
    assert result.exit_code == 1
    assert "--ray needs the package ray: pip install 'farpoint[ray]'" in result.stderr
