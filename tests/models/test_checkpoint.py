"""Encoders in files: what comes back is what was saved, and nothing else is accepted."""

import json
import os
import pickle
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from farpoint_models import (
    CheckpointError,
    DensityEncoder,
    EncoderConfig,
    default_encoder,
    load_encoder,
    save_encoder,
)
from farpoint_models.checkpoint import FORMAT
from farpoint_models.weights import DEFAULT

CONFIG = EncoderConfig(rates=(0.5, 0.2), channels=8, hidden=4, neighbors=7, groups=2, attributes=1)


@pytest.fixture
def encoder() -> DensityEncoder:
    return DensityEncoder(CONFIG)


@pytest.fixture
def file(encoder: DensityEncoder, tmp_path: Path) -> Path:
    path = tmp_path / "encoder.safetensors"
    save_encoder(encoder, path, {"trained": "not at all"})
    return path


def rewrite(file: Path, config: dict[str, object] | None = None, **tensors: object) -> None:
    """The file with other tensors (None takes one away) and another config."""
    with safe_open(file, "pt") as opened:
        header = opened.metadata()
    if config is not None:
        header["config"] = json.dumps(json.loads(header["config"]) | config)
    merged = load_file(file) | {name.replace("__", "."): t for name, t in tensors.items()}
    save_file({name: t for name, t in merged.items() if t is not None}, file, header)


def test_a_saved_encoder_is_loaded_as_it_was(encoder: DensityEncoder, file: Path) -> None:
    loaded = load_encoder(file)
    assert loaded.config == CONFIG
    assert not loaded.training
    for name, tensor in encoder.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], tensor), name
    with safe_open(file, "pt") as opened:
        header = opened.metadata()
    assert EncoderConfig.from_json(header["config"]) == CONFIG
    assert header["trained"] == "not at all"


@pytest.mark.parametrize("zipped", [True, False])
def test_a_pickle_is_refused_unread(tmp_path: Path, zipped: bool) -> None:
    class Harmful:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return Path.touch, (tmp_path / "ran",)

    path = tmp_path / "model.pt"
    if zipped:
        torch.save({"weights": Harmful()}, path)
    else:
        path.write_bytes(pickle.dumps(Harmful()))
    with pytest.raises(CheckpointError, match="no pickle is read"):
        load_encoder(path)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("config", "tensors", "message"),
    [
        ({"channels": 16}, {}, r"tensor lift.weight: expected floats of shape \(16,"),
        (None, {"stages__0__join__bias": None}, r"tensor stages\.0\.join\.bias is missing"),
        ({"rates": [0.5]}, {}, r"tensor stages.1.\S+ is not in a model"),
        (
            None,
            {"stages__1__mix__bias": torch.full((8,), torch.nan)},
            r"tensor stages\.1\.mix\.bias: expected finite",
        ),
    ],
)
def test_weights_that_do_not_fit_their_config_name_the_tensor(
    file: Path, config: dict[str, object] | None, tensors: dict[str, object], message: str
) -> None:
    rewrite(file, config, **tensors)
    with pytest.raises(CheckpointError, match=message):
        load_encoder(file)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"depth": 3}, "unknown or missing: .'depth'"),
        ({"hidden": "8"}, "hidden: expected an integer"),
        ({"hidden": 7}, "hidden: expected a multiple of groups = 2, got 7"),
        ({"neighbors": -1}, "neighbors: expected 1..4096, got -1"),
        ({"attributes": 10**6}, "attributes: expected 0..1024"),
        ({"invariant": 7}, "invariant: expected 0..6, got 7"),
        ({"upright": 2}, "upright: expected 0..0, got 2"),
        ({"rates": []}, "rates: expected one or more in"),
        ({"rates": [2.0]}, "rates: expected one or more in"),
        ({"channels": 10**9}, "channels: expected 1..4096"),
        ({"rates": [0.99] * 17}, "rates: expected at most 16 stages, got 17"),
        ({"rates": [10**400]}, "rates: .*too large"),
        ({"rates": [0.5] * 100_000}, "config: expected at most 4096 characters"),
    ],
)
def test_a_config_that_makes_no_sense_is_refused(
    file: Path, config: dict[str, object], message: str
) -> None:
    rewrite(file, config)
    with pytest.raises(CheckpointError, match=message):
        load_encoder(file)


@pytest.mark.parametrize("depth", [100_000, 2000])
def test_a_config_that_is_nested_deeply_is_refused(tmp_path: Path, depth: int) -> None:
    path = tmp_path / "deep.safetensors"
    header = {"format": FORMAT, "config": "[" * depth + "]" * depth}
    save_file({"a": torch.zeros(1)}, path, header)
    with pytest.raises(CheckpointError, match=r"config: (nested|expected)") as caught:
        load_encoder(path)
    assert len(str(caught.value)) < 1000


def test_only_regular_files_are_opened(tmp_path: Path) -> None:
    """To open a named pipe waits for a writer."""
    os.mkfifo(tmp_path / "pipe")
    for other in (tmp_path / "pipe", tmp_path, Path("/dev/zero")):
        with pytest.raises(CheckpointError, match="expected a regular file"):
            load_encoder(other)
    with pytest.raises(CheckpointError, match="without NUL"):
        load_encoder(f"{tmp_path}/a\0b")


def test_a_file_that_is_larger_than_any_encoder_is_not_read(file: Path) -> None:
    os.truncate(file, 1 << 40)  # sparse
    with pytest.raises(CheckpointError, match=r"at most 1073741824 bytes, got 1099511627776"):
        load_encoder(file)


def test_a_file_from_before_invariant_features_loads(file: Path) -> None:
    config = json.loads(CONFIG.to_json())
    del config["invariant"], config["upright"]
    rewrite(file, config)
    assert load_encoder(file).config == CONFIG


def test_other_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    for content in (b"", b"{}", b"\x00" * 64, b"PLY is not weights"):
        path.write_bytes(content)
        with pytest.raises(CheckpointError, match="is not a safetensors file"):
            load_encoder(path)
    save_file({"a": torch.zeros(1)}, path)
    with pytest.raises(CheckpointError, match="expected format"):
        load_encoder(path)


def test_the_shipped_encoder_is_small_and_has_its_settings() -> None:
    assert DEFAULT.stat().st_size < 2**20
    with safe_open(DEFAULT, "pt") as opened:
        trained = json.loads(opened.metadata()["trained"])
    encoder = default_encoder()
    assert trained["encoder"] == json.loads(encoder.config.to_json())
    stages = encoder(torch.randn(1, 2000, 3))
    assert all(stage.features.isfinite().all() for stage in stages)
