"""Folders, patterns, order, resuming, standard input, interrupts."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from tests.support.clouds import cloud_file

from farpoint.io import read_cloud

NAMES = ["simple.las", "lamppost.pcd", "autzen-utm.pcd"]


@pytest.fixture
def scans(tmp_path):
    folder = tmp_path / "scans"
    (folder / "deep").mkdir(parents=True)
    for name in NAMES[:2]:
        shutil.copy(cloud_file(name), folder)
    shutil.copy(cloud_file(NAMES[2]), folder / "deep")
    (folder / "notes.md").write_text("not a cloud")
    np.save(folder / "old.indices.npy", np.arange(3))
    return folder


def written(folder):
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


def test_a_folder(sample, scans, tmp_path):
    assert sample(scans, "-m", 5, "-o", tmp_path / "out").exit_code == 0
    assert written(tmp_path / "out") == ["lamppost.pcd", "simple.las"]
    result = sample(scans, "-r", "-m", 5, "-o", tmp_path / "all", "--to", "ply")
    assert result.exit_code == 0, result.output
    assert written(tmp_path / "all") == ["deep/autzen-utm.ply", "lamppost.ply", "simple.ply"]
    assert len(read_cloud(tmp_path / "all/deep/autzen-utm.ply")) == 5


def test_a_folder_of_outputs_within_that_of_the_inputs(sample, scans):
    for _ in range(2):
        result = sample(scans, "-r", "-m", 5, "-o", scans / "sampled")
        assert result.exit_code == 0, result.output
        assert result.stdout.count("\n") == 3
    assert not (scans / "sampled" / "sampled").exists()


def test_a_folder_without_clouds_is_an_error(sample, scans, tmp_path):
    (scans / "empty").mkdir()
    result = sample(scans / "empty", "-m", 5, "-o", tmp_path / "out")
    assert result.exit_code == 2
    assert "no cloud files in this folder (-r looks in its folders too)" in result.stderr


def test_resume_skips_inputs_whose_outputs_exist(sample, scans, server, tmp_path):
    out = tmp_path / "out"
    assert sample(scans, "-m", 5, "-o", out, "--indices").exit_code == 0
    (out / "lamppost.indices.npy").unlink()
    before = (out / "simple.las").stat().st_mtime_ns, len(server.requests)
    result = sample(scans, "-m", 5, "-o", out, "--indices", "--resume")
    assert result.exit_code == 0
    assert "1 of 2 files were done before" in result.stderr
    assert "lamppost.pcd" in result.stdout
    assert ((out / "simple.las").stat().st_mtime_ns, len(server.requests)) == (
        before[0],
        before[1] + 1,
    )


def test_every_kind_of_failure_is_one_line_and_the_rest_is_done(sample, scans, tmp_path):
    whole = cloud_file("plane_state_plane_feet.laz").read_bytes()
    bad = {
        "cut.laz": whole[: len(whole) // 2],
        "noise.laz": whole[:5000] + os.urandom(len(whole) - 6000) + whole[-1000:],
        "empty.ply": b"",
        "nan.csv": b"1,2,3\nnan,1,1\n1,2,4\n1,2,5\n2,2,2\n",
        "small.csv": b"1,2,3\n",
        "text.e57": b"no",
    }
    for name, content in bad.items():
        (scans / name).write_bytes(content)
    result = sample(scans, "-m", 5, "-o", tmp_path / "out")
    assert result.exit_code == 1
    assert written(tmp_path / "out") == ["lamppost.pcd", "simple.las"]
    lines = result.stderr.splitlines()
    assert len(lines) == len(bad), result.stderr
    for name, line in zip(sorted(bad), lines, strict=True):
        assert line.startswith("farpoint: ")
        assert name.partition(".")[0] in line
    assert "--nonfinite ignore" in result.stderr
    assert "--to .ply" in result.stderr


def test_a_crash_of_a_reader_ends_its_file_alone(sample, scans, tmp_path, monkeypatch):
    (tmp_path / "laspy.py").write_text("import os\nos.write(2, b'boom')\nos.abort()\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    np.save(scans / "with more.npy", np.random.default_rng(0).normal(size=(50, 3)))
    result = sample(scans, "-m", 5, "-o", tmp_path / "out", "-j", 1)
    assert result.exit_code == 1
    reason = f"farpoint: {scans}/simple.las: the process that read it crashed (SIGABRT)\n"
    assert result.stderr == reason
    assert written(tmp_path / "out") == ["lamppost.pcd", "with more.npy"]


def test_lines_come_in_the_order_of_the_files(sample, scans, tmp_path):
    for i in range(12):
        np.save(scans / f"a{i:02}.npy", np.random.default_rng(i).normal(size=(50, 3)))
    result = sample(scans, "-m", 5, "-o", tmp_path / "out", "-j", 3, "--json")
    assert result.exit_code == 0, result.output
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    inputs = [line["input"] for line in lines]
    assert (inputs, len(inputs)) == (sorted(inputs), 14)
    for line in lines:
        assert line["output"] == str(tmp_path / "out" / Path(line["input"]).name)
        assert len(read_cloud(line["output"])) == line["samples"] == 5
        assert line["covering_radius"] > 0
        assert line["timings"]["server_ms"] == 1.0


def test_standard_input(sample, tmp_path):
    data = cloud_file("simple.las").read_bytes()
    result = sample("-", "--format", "las", "-m", 5, "-o", tmp_path / "a.ply", stdin=data)
    assert result.exit_code == 0, result.output
    assert len(read_cloud(tmp_path / "a.ply")) == 5
    result = sample("-", "-m", 5, "-o", tmp_path / "a.ply", stdin=data)
    assert (result.exit_code, result.stderr) == (
        2,
        "farpoint: standard input has no suffix: name its format, as in --format .las\n",
    )
    result = sample("-", tmp_path, "--format", "las", "-m", 5, "-o", tmp_path / "out", stdin=data)
    assert "standard input must be the only input" in result.stderr
    result = sample("-", "--format", ".las", "-m", 5, "-o", tmp_path / "a.ply", stdin=data[:500])
    assert result.exit_code == 2
    assert result.stderr.startswith("farpoint: -: ")


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_an_interrupt_leaves_no_process_and_no_partial_file(scans, server, tmp_path):
    for i in range(30):
        np.save(scans / f"a{i:02}.npy", np.random.default_rng(i).normal(size=(20_000, 3)))
    command = [sys.executable, "-m", "farpoint", "sample", str(scans), "-m", "400"]
    command += ["-o", str(tmp_path / "out"), "--server", server.target]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    # A signal that this process ignores, as a shell may have it, would be ignored there as well.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    process = subprocess.Popen(
        command, env=environment, stderr=subprocess.PIPE, start_new_session=True
    )
    signal.signal(signal.SIGINT, before)
    while not list((tmp_path / "out").glob("a*.npy")):
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode in (130, 1)
    assert b"Traceback" not in errors
    assert not list((tmp_path / "out").glob(".farpoint-*"))
    with pytest.raises(ProcessLookupError):
        probe_for(20, process.pid)


def probe_for(seconds: float, group: int) -> None:
    """Probes a group of processes until it is gone: a decoder that was killed takes a moment."""
    give_up = time.monotonic() + seconds
    while time.monotonic() < give_up:
        os.killpg(group, 0)
        time.sleep(0.01)
