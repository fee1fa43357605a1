"""The example that fine-tunes the encoder on recordings, on two small ones."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.support.clouds import street_scan

from farpoint_models import default_encoder, load_encoder

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
