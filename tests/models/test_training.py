"""Training: decided by its seed, and the clouds that it trains on."""

import gzip
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from farpoint_models import EncoderConfig, default_encoder, load_decoder, load_encoder
from farpoint_training import __main__ as command
from farpoint_training import families, scenes, sources
from farpoint_training.contrast import contrast
from farpoint_training.families import FAMILIES, revolve, sample_shape, triangles, tube
from farpoint_training.probe import probe
from farpoint_training.scenes import lidar_scan
from farpoint_training.sources import views
from farpoint_training.trainer import Settings, Trainer

TINY = EncoderConfig(
    rates=(0.25, 0.25), channels=16, hidden=8, neighbors=8, groups=2, invariant=6, upright=4
)


@pytest.fixture(autouse=True)
def small_scenes(monkeypatch: pytest.MonkeyPatch) -> None:
    def lidar_scan(seed: int, columns: int) -> np.ndarray:
        del columns
        return scenes.lidar_scan(seed, beams=16, columns=64)

    monkeypatch.setattr(sources, "lidar_scan", lidar_scan)


@pytest.mark.slow
def test_a_few_steps_teach_features_to_match_and_to_rebuild() -> None:
    trained = Trainer(Settings(TINY, steps=60, points=512, learning_rate=8e-3))
    losses = [trained.step() for _ in range(60)]
    for name in ("contrast", "rebuild"):
        first, last = (np.mean([loss[name] for loss in part]) for part in (losses[:8], losses[-8:]))
        assert last < 0.95 * first, name


def test_the_command_writes_encoder_and_decoders(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command.main(["--out", str(tmp_path), "--steps", "1"])
    assert load_encoder(tmp_path / "encoder.safetensors").config == default_encoder().config
    assert load_decoder(tmp_path / "decoders.safetensors", 1).each == 16
    assert "step 1/1" in capsys.readouterr().out


def test_the_seed_decides_the_weights() -> None:
    def trained(seed: int) -> torch.Tensor:
        trainer = Trainer(Settings(TINY, steps=2, points=512, seed=seed))
        for _ in range(2):
            trainer.step()
        return torch.cat([value.flatten() for value in trainer.parts.state_dict().values()])

    first = trained(1)
    assert torch.equal(first, trained(1))
    assert not torch.equal(first, trained(2))


def test_features_that_tell_places_apart_have_a_small_loss() -> None:
    places = torch.rand(2, 30, 3, generator=torch.Generator().manual_seed(0))
    features = torch.eye(60).view(2, 30, 60).mT
    order = torch.randperm(30)
    alike = contrast(features, features[:, :, order], places, places[:, order])
    unlike = contrast(features, features, places, places[:, order])
    assert alike < 0.01
    assert unlike > 5


def test_views_show_the_same_places_moved_and_turned() -> None:
    """Seen without noise, the distances between points are those of their places."""
    pair = views([sources.shapes()], 1024, np.random.default_rng(0), tilt=180)
    for view in pair:
        assert view.seen.shape == view.places.shape
        true, seen = (torch.pdist(part[0]) for part in (view.places, view.seen))
        assert ((true - seen).abs() < 0.2 * true.mean()).all()
        assert not torch.allclose(view.places, view.seen, atol=0.2)
    gaps = torch.cdist(*(view.places for view in pair)).amin(2)
    assert 0.3 < float((gaps < 0.1).float().mean()) < 1


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


ROOT = Path(__file__).parents[2]


def area(patches: list[np.ndarray]) -> float:
    a, b, c = triangles(patches).transpose(1, 0, 2)
    return float(np.linalg.norm(np.cross(b - a, c - a), axis=1).sum() / 2)


def test_patches_have_the_area_of_their_surface() -> None:
    latitude = np.linspace(-np.pi / 2, np.pi / 2, 64)
    sphere = revolve(np.column_stack([np.cos(latitude), np.sin(latitude)]), sides=64)
    torus = tube(lambda u: (0 * u + 2.0, 2 * np.pi * u), 0.0, 0.5)
    assert area([sphere]) == pytest.approx(4 * np.pi, rel=0.01)
    assert area([torus]) == pytest.approx(4 * np.pi**2 * 2 * 0.5, rel=0.03)
    assert area(families.box((1, 2, 3), (1, 2, 3))) == pytest.approx(22)


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("partial", [False, True])
def test_a_shape_is_a_float32_cloud_of_about_its_size(name: str, partial: bool) -> None:
    cloud = sample_shape(name, 400, np.random.default_rng(0), partial=partial)
    assert cloud.shape == (400, 3)
    assert cloud.dtype == np.float32
    assert np.isfinite(cloud).all()
    assert 0.1 < np.ptp(cloud, axis=0).max() < 8
    assert len(np.unique(cloud, axis=0)) == 400


@pytest.mark.parametrize("beams", [1, 5, 9, 41])
def test_a_beam_may_be_level(beams: int) -> None:
    assert np.isfinite(lidar_scan(beams=beams, columns=360)).all()


def test_the_scan_is_the_street_of_the_page() -> None:
    """To the centimeter: the demo, benchmarks and the page show the same 120 000 points."""
    content = gzip.decompress((ROOT / "web/src/assets/street.bin").read_bytes())
    count = len(content) // 7
    steps = np.frombuffer(content, "<i2", 3 * count).reshape(3, count)
    scan = lidar_scan()
    assert scan.dtype == np.float32
    np.testing.assert_array_equal(np.rint(scan[:, :3] * 100), steps.cumsum(1, np.int64).T)
    shades = np.frombuffer(content, np.uint8, offset=6 * count)
    np.testing.assert_array_equal(np.rint(scan[:, 3] * 255), shades)
    assert len(lidar_scan(1)) != len(scan)
