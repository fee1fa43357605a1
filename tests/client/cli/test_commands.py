"""The command `farpoint`: files in, files out, one-line errors and exit codes."""

import importlib.util
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.client.conftest import serving
from tests.support.clouds import cloud_file
from tests.support.command import run_farpoint

from farpoint.io import read_cloud


def test_a_file_becomes_a_file_with_all_attributes(sample, client, tmp_path):
    source, output = cloud_file("autzen-utm.pcd"), tmp_path / "out.pcd"
    result = sample(source, "-m", 64, "-o", output, "--indices", "--start", 5)
    assert result.exit_code == 0, result.output
    assert "64 of 1065 points" in result.stdout
    cloud, written = read_cloud(source), read_cloud(output)
    rows = np.load(tmp_path / "out.indices.npy")
    assert rows.dtype == np.int64
    assert rows.tolist() == client.sample(cloud.points, 64, start=5).indices.tolist()
    assert np.array_equal(written.points, cloud.points[rows])
    assert list(written.attributes) == list(cloud.attributes)


def test_failures_in_json_are_objects_like_the_rest(sample, tmp_path):
    (tmp_path / "empty.csv").touch()
    words = ["-m", 2, "-o", tmp_path / "out", "--json"]
    result = sample(tmp_path / "empty.csv", cloud_file("simple.las"), *words)
    assert (result.exit_code, result.stderr) == (1, "")
    failed, done = (json.loads(line) for line in result.stdout.splitlines())
    assert failed["input"] == str(tmp_path / "empty.csv")
    assert (failed["kind"], done["samples"]) == ("CloudFileError", 2)
    assert "0 points" in failed["error"]
    alone = sample(tmp_path / "none.csv", *words)
    assert alone.exit_code == 2
    assert "No such file" in json.loads(alone.stdout)["error"]


def test_quiet_prints_failures_only(sample, tmp_path):
    (tmp_path / "empty.csv").touch()
    words = ["-m", 2, "-o", f"{tmp_path}/out/", "-q"]
    assert sample(cloud_file("simple.las"), *words).output == ""
    result = sample(tmp_path / "empty.csv", cloud_file("lamppost.pcd"), *words)
    assert (result.stdout, result.stderr.count("\n")) == ("", 1)


WRONG = {
    "too many samples": ("{las} -m 2000 -o {tmp}/a.las", "m must be from 1 to"),
    "no such file": ("{tmp}/none.ply -m 1 -o {tmp}/a.ply", "No such file"),
    "unknown output": ("{las} -m 1 -o {tmp}/a.abc", "unknown suffix '.abc'"),
    "unwritable": ("{las} -m 1 -o {tmp}/none/a.las", "No such file"),
    "itself": ("{tmp}/a.csv -m 1 -o {tmp}", "would replace an input"),
    "two alike": ("{las} {las} -m 1 -o {tmp}/out", "two inputs"),
    "two to a file": ("{las} {tmp}/a.csv -m 1 -o {tmp}/a.csv", "Not a directory"),
    "no name": ("'' -m 1 -o {tmp}/a.las", "IN must be a file, a folder or -"),
    "no jobs": ("{las} -m 1 -o {tmp}/a.las -j 0", "--jobs must be"),
    "a radius": ("{las} --radius -1 -o {tmp}/a.las", "--radius must be a number"),
    "unknown option": ("{las} --no-such-option", "unrecognized arguments"),
    "no number": ("{las} --radius x", "invalid float value: 'x'"),
    "too late": ("{las} -m 1 -o {tmp}/a.las --timeout 0", "above 0"),
    "no amount": ("{las} -o {tmp}/a.las", "give -m or --radius"),
    "no size": ("{las} -o {tmp}/a.las --method voxel-grid", "needs --voxel-size"),
    "m of a grid": (
        "{las} -o {tmp}/a.las --method voxel-grid --voxel-size 1 -m 5",
        "-m must be left out with --method voxel-grid",
    ),
    "a seed": ("{las} -o {tmp}/a.las -m 5 --seed 1", "--seed goes with --method random"),
    "a radius of rows": (
        "{las} -o {tmp}/a.las --method random -m 5 --radius 1",
        "--radius goes with --method farthest-point or poisson-disk",
    ),
    "no radius": ("{las} -o {tmp}/a.las --method poisson-disk", "needs --radius"),
    "a start": (
        "{las} -o {tmp}/a.las --method random -m 5 --start 2",
        "--start goes with --method farthest-point",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_failure_is_one_line(sample, tmp_path, case):
    (tmp_path / "a.csv").write_text("1,2,3\n")
    words, message = WRONG[case]
    result = sample(*shlex.split(words.format(las=cloud_file("simple.las"), tmp=tmp_path)))
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stderr.startswith("farpoint: ")
    assert result.stderr.count("\n") == 1


def test_version_and_info(server, farpoint):
    assert farpoint("--version").stdout.startswith("farpoint ")
    result = farpoint("info", "--server", server.target)
    assert result.exit_code == 0
    assert "farpoint-server 1.2.3, torch 2.13.0" in result.stdout
    assert "cpu: A processor" in result.stdout
    as_json = json.loads(farpoint("info", "--json", server=server.target).stdout)
    assert as_json["limits"]["request_points"] == 20


def test_info_of_a_file(farpoint, tmp_path):
    source = cloud_file("autzen_trim_part.laz")
    shown = farpoint("info", source).stdout
    assert "points     2200\n" in shown
    assert "bounds     636023.12 848941.72 406.43 to 637177.98 849471.25 513.98\n" in shown
    assert "unit       foot\n" in shown
    assert "intensity (uint16)" in shown
    (tmp_path / "a.bin").write_bytes(np.zeros((2, 5), "<f4"))
    read = farpoint("info", tmp_path / "a.bin", "--columns", "x,y,z,i,ring", "--json")
    known = json.loads(read.stdout)
    assert (known["points"], known["bounds"]) == (2, [[0, 0, 0], [0, 0, 0]])
    assert known["attributes"] == {"i": "float32", "ring": "float32"}
    assert farpoint("info", tmp_path / "none.las").exit_code == 2


@pytest.mark.parametrize("status", ["SERVING", "NOT_SERVING", "UNKNOWN", "9"])
def test_health(farpoint, status):
    health = pytest.importorskip("grpc_health.v1.health")
    health_pb2_grpc = pytest.importorskip("grpc_health.v1.health_pb2_grpc")
    servicer, name = health.HealthServicer(), "farpoint.v1.SamplingService"
    servicer.set(name, int(status) if status == "9" else status)
    with serving((health_pb2_grpc.add_HealthServicer_to_server, servicer)) as target:
        result = farpoint("health", "--service", name, "--json", server=target)
        assert json.loads(result.stdout) == {"service": name, "status": status}
        assert result.exit_code == (0 if status == "SERVING" else 1)
        assert farpoint("health", server=target).stdout == "SERVING\n"
        unknown = farpoint("health", "--service", "x" * 200, server=target)
    assert (unknown.stdout, unknown.exit_code) == ("SERVICE_UNKNOWN\n", 1)


@pytest.mark.parametrize("target", ["/dev/full", "loop.las"])
def test_an_output_is_a_file_or_a_new_name(sample, server, tmp_path, target):
    (tmp_path / "loop.las").symlink_to(target)
    for source, output in (("simple.las", "loop.las"), ("simple.las", "a.las")):
        source = tmp_path / "loop.las" if output == "a.las" else cloud_file(source)
        result = sample(source, "-m", 5, "-o", tmp_path / output)
        assert result.exit_code == 2, result.output
        assert result.stderr.count("\n") == 1
    assert server.requests == []
    assert Path("/dev/full").is_char_device()


def test_names_of_files_are_any_bytes(tmp_path):
    path = os.fsencode(tmp_path) + b"/\xff.csv"
    Path(os.fsdecode(path)).write_text("1,2,3\n")
    command, strict = [sys.executable, "-m", "farpoint", "info", path], "utf-8:strict"
    done = subprocess.run(
        command, env={**os.environ, "PYTHONIOENCODING": strict}, capture_output=True, check=True
    )
    assert path in done.stdout


@pytest.mark.parametrize("module", ["farpoint.cli.app", "argparse", "farpoint.cli.sample.run"])
def test_ctrl_c_during_the_imports_is_one_line(module):
    code = (
        "import builtins, os, signal\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "plain = builtins.__import__\n"
        "def hooked(name, *rest):\n"
        f"    if name == {module!r}:\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "    return plain(name, *rest)\n"
        "builtins.__import__ = hooked\n"
        "from farpoint.cli import main; main()"
    )
    command = [sys.executable, "-c", code, "sample", "a.las", "-m", "5", "-o", "b.las"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "farpoint: interrupted\n")


ARGUMENTS = ["model.py:net", "net.pt2", "--input", "points:xyz=B,N,3", "--help"]


def test_export_forwards_arguments_and_exit_status(monkeypatch):
    ran = []

    def run(command: list[str]) -> subprocess.CompletedProcess[bytes]:
        ran.append(command)
        return subprocess.CompletedProcess(command, 7)

    monkeypatch.setattr(subprocess, "run", run)
    assert run_farpoint("export", *ARGUMENTS).exit_code == 7
    assert ran == [[sys.executable, "-m", "farpoint_models.programs", *ARGUMENTS]]


def test_export_without_the_server_names_the_package_to_install(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    ended = run_farpoint("export", *ARGUMENTS)
    assert ended.exit_code == 2
    assert "pip install farpoint-server" in ended.output
