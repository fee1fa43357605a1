"""Training: decided by its seed."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from farpoint_models import EncoderConfig, load_encoder
from farpoint_training import __main__ as command
from farpoint_training import report, scenes, sources
from farpoint_training.probe import probe
from farpoint_training.reconstruction import Rebuilt, Target, error
from farpoint_training.trainer import Settings, Trainer

TINY = EncoderConfig(rates=(0.25, 0.25), channels=8, hidden=8, neighbors=8, groups=2)
FLAGS = [
    *("--points", "512", "--rates", "0.25", "0.25", "--channels", "8", "--hidden", "8"),
    *("--neighbors", "8", "--groups", "2"),
]


@pytest.fixture(autouse=True)
def small_scenes(monkeypatch: pytest.MonkeyPatch) -> None:
    def lidar_scan(seed: int, columns: int) -> np.ndarray:
        del columns
        return scenes.lidar_scan(seed, beams=16, columns=64)

    monkeypatch.setattr(sources, "lidar_scan", lidar_scan)


@pytest.fixture
def small_report(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"BATCHES": 1, "SHOTS": (2,), "TRIALS": 2, "POINTS": 128}.items():
        monkeypatch.setattr(report, name, value)


def test_a_few_steps_teach_the_features_to_count() -> None:
    """The first thing that they learn; shapes take longer."""
    trained = Trainer(Settings(TINY, steps=80, points=512, learning_rate=8e-3))
    losses = [trained.step() for _ in range(80)]
    assert np.mean(losses[-10:]) < 0.8 * np.mean(losses[:10])
    trained.parts.eval()
    for errors in report.reconstruction(trained, [sources.shapes()]):
        assert errors["log_count"] < 0.6 * errors["baseline_log_count"]


@pytest.mark.usefixtures("small_report")
def test_the_command_writes_encoder_and_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(["--out", str(tmp_path), "--steps", "2", *FLAGS]) == 0
    assert load_encoder(tmp_path / "encoder.safetensors").config == TINY
    found = json.loads((tmp_path / "report.json").read_text())
    assert found["settings"]["steps"] == 2
    assert set(found["reconstruction"]) == {
        "training families",
        "held-out families",
        "unseen scans",
    }
    assert "step 2/2" in capsys.readouterr().out


@pytest.mark.usefixtures("small_report")
def test_the_seed_decides_the_weights(tmp_path: Path) -> None:
    for folder, seed in (("a", "1"), ("b", "1"), ("c", "2")):
        out = ["--out", str(tmp_path / folder), "--steps", "2", "--seed", seed]
        assert command.main([*out, *FLAGS]) == 0
    first, again, other = (
        torch.cat([v.flatten() for v in load_encoder(path).state_dict().values()])
        for path in sorted(tmp_path.glob("*/encoder.safetensors"))
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_the_command_names_a_wrong_setting(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(["--out", str(tmp_path / "out"), *FLAGS, "--hidden", "7"]) == 2
    assert "hidden: expected a multiple of groups" in capsys.readouterr().err


def example(counts: list[float]) -> Target:
    """Two samples: one stands for (1, 0, 0) and (0, 1, 0), the other for itself alone."""
    offsets = torch.tensor([[[[1.0, 0, 0], [0, 1, 0]], [[0, 0, 0], [9, 9, 9]]]])
    members = torch.tensor([[[True, True], [True, False]]])
    return Target(offsets, members, 1.0, torch.tensor([counts]))


def test_a_perfect_reconstruction_has_no_error() -> None:
    true = example([2.0, 1.0])
    junk = torch.full((1, 2, 1, 3), 5.0)  # in slots that the count does not ask for
    rebuilt = Rebuilt(torch.cat([true.offsets, junk], 2), true.counts.log())
    for own_count in (False, True):
        chamfer, log_count = error(rebuilt, true, own_count=own_count)
        assert chamfer == pytest.approx(0, abs=1e-6)
        assert log_count == 0


def test_the_error_is_measured_both_ways() -> None:
    """Slots on (1, 0, 0) and (1, 0, 0) leave (0, 1, 0) uncovered, by sqrt(2), half of one set."""
    true = example([2.0, 1.0])
    offsets = true.offsets.clone()
    offsets[0, 0, 1] = offsets[0, 0, 0]
    chamfer, _ = error(Rebuilt(offsets, true.counts.log()), true)
    assert chamfer == pytest.approx(2**0.5 / 2 / 2)


def test_a_probe_separates_what_a_line_can() -> None:
    torch.manual_seed(0)
    labels = torch.arange(3).repeat(20)
    clouds = torch.randn(60, 4) + 6 * torch.eye(4)[labels]
    assert probe(clouds, labels, clouds, labels) > 0.95
    assert probe(clouds, labels, torch.randn(60, 4), labels) < 0.7


SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "train_classifier.py"


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_network_learns_through_ops_without_gradients() -> None:
    command = [sys.executable, str(SCRIPT), "--steps", "60", "--classes", "3"]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    losses = [float(loss) for loss in re.findall(r"loss (\d+\.\d+)", output)]
    assert losses[-1] < 0.5 * losses[0]
    reached = re.search(r"accuracy on 60 unseen shapes of 3 classes: ([\d.]+)%", output)
    assert reached is not None
    assert float(reached.group(1)) >= 75
    assert "requires_grad=False" in output
    assert "the same before and after training: True" in output
