"""make demo, and the example that fine-tunes the encoder."""

import os
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.support.clouds import street_scan

from farpoint.io import read_cloud
from farpoint_models import default_encoder, load_encoder

DEMO = Path(__file__).resolve().parents[2] / "examples" / "demo.py"


def run_demo(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs the demo in `folder`, where it writes; the path of this process finds the packages."""
    path = os.pathsep.join(filter(None, sys.path))
    return subprocess.run(
        [sys.executable, DEMO, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path, "COLUMNS": "100", **environment},
        capture_output=True,
        text=True,
        timeout=100,
    )


def test_a_scan_is_cast_and_sampled_when_no_file_is_named(tmp_path: Path) -> None:
    done = run_demo(tmp_path)
    assert done.returncode == 0, done.stderr
    scan, chosen = (read_cloud(tmp_path / "demo" / n) for n in ("scan.bin", "sampled.ply"))
    assert len(chosen) == 4096
    rows = {row.tobytes() for row in np.column_stack([scan.points, scan.attributes["intensity"]])}
    kept = np.column_stack([chosen.points, chosen.attributes["intensity"]])
    assert all(row.tobytes() in rows for row in kept)
    assert (tmp_path / "demo" / "before_after.png").read_bytes().startswith(b"\x89PNG")
    for words in (f"{len(scan):,}", "4,096", "covering radius", "queue", "compute", "wire"):
        assert words in done.stdout


@pytest.mark.parametrize(
    ("environment", "reason"),
    [({}, "no point with finite coordinates"), ({"FARPOINT_DEVICE": "abacus"}, "device")],
)
def test_a_failure_is_one_sentence_and_status_1(
    tmp_path: Path, environment: dict[str, str], reason: str
) -> None:
    np.save(tmp_path / "nan.npy", np.full((4, 3), np.nan))
    done = run_demo(tmp_path, "nan.npy", **environment)
    assert done.returncode == 1
    assert done.stderr.startswith("The demo failed: ")
    assert reason in done.stderr
    assert "Traceback" not in done.stderr


def test_a_quarter_of_a_small_cloud_is_sampled_and_with_stay_it_serves_until_it_is_interrupted(
    tmp_path: Path,
) -> None:
    points = np.arange(36, dtype=np.float64).reshape(12, 3)
    points[5] = np.nan
    np.save(tmp_path / "tiny cloud.npy", points)
    # A shell's background ignores SIGINT, and a child inherits that.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    process = subprocess.Popen(
        [sys.executable, "-u", DEMO, "tiny cloud.npy", "--stay"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdout=subprocess.PIPE,
        text=True,
    )
    signal.signal(signal.SIGINT, before)
    with process:
        assert process.stdout is not None
        printed = []
        while not (line := process.stdout.readline()).startswith("Open "):
            printed.append(line)
        assert "1 not finite" in "".join(printed)
        assert len(read_cloud(tmp_path / "demo" / "sampled.ply")) == 2
        with urllib.request.urlopen(line.split()[1].rstrip(";"), timeout=60) as page:
            assert page.headers["content-type"].startswith("text/html")
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130


SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "finetune_encoder.py"


@pytest.mark.slow
def test_a_folder_of_recordings_gives_an_encoder_to_serve_and_a_table(tmp_path: Path) -> None:
    points = np.random.default_rng(0).random((1200, 3))
    np.save(tmp_path / "room.npy", 1e6 + points)
    np.save(tmp_path / "street.npy", street_scan()[:1200, :3])
    np.save(tmp_path / "small.npy", points[:9])
    (tmp_path / "broken.ply").write_text("no cloud")
    out = tmp_path / "tuned.safetensors"
    command = [sys.executable, str(SCRIPT), str(tmp_path), "--out", str(out)]
    command += ["--steps", "3", "--least", "1000"]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "2 recordings: room.npy, street.npy" in output
    assert "left out: small.npy: 9 points that differ, fewer than 1000" in output
    assert re.search(r"left out: .*broken.ply", output)
    rows = re.findall(r"^\| ([a-z -]+) \| (\d\.\d+) \| (\d\.\d+) \|$", output, re.MULTILINE)
    names = {name for name, *_ in rows}
    assert {"encoder as shipped", "encoder fine-tuned", "hand-made statistics"} < names
    # Anything separates a street from noise in a cube.
    assert all(float(share) >= 0.8 for _, *shares in rows for share in shares)
    tuned, shipped = load_encoder(out).state_dict(), default_encoder().state_dict()
    assert tuned.keys() == shipped.keys()
    assert not all(torch.equal(tuned[name], shipped[name]) for name in tuned)
