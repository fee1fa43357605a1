"""The decoder: as many points as the counts say, from a few bytes a sample."""

import json
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from torch import Tensor

import farpoint
from farpoint_models import (
    CheckpointError,
    Decoder,
    DensityEncoder,
    EncoderConfig,
    default_decoder,
    default_encoder,
    load_decoder,
    save_encoder,
)
from farpoint_models.checkpoint import save_decoders
from farpoint_models.decoder import Decoders
from farpoint_models.programs import __main__ as command
from farpoint_models.programs.program import load_program
from farpoint_models.weights import DECODERS
from farpoint_ops import knn

CONFIG = EncoderConfig(rates=(0.5, 0.2), channels=12, hidden=4, groups=2, invariant=3, upright=2)
MILK = Path(__file__).parents[1] / "data" / "milk.pcd"
EXPORT = [
    *("farpoint_models:default_decoder", "--batching", "equal", "--limit", "N=2"),
    *("--input", "points:points=B,N,3", "--input", "per_point:features=B,64,N"),
    *("--input", "per_point:counts=B,N:int64", "--output", "per_sample:rebuilt=B,R,3@sizes"),
    *("--output", "counts:sizes=B:int64"),
]


@pytest.fixture
def decoder() -> Decoder:
    torch.manual_seed(0)
    return Decoder(CONFIG, 1).eval()


@pytest.fixture(scope="module")
def milk() -> Tensor:
    points = farpoint.io.read_cloud(MILK).points
    rows = torch.randperm(len(points), generator=torch.Generator().manual_seed(0))[:4096]
    return torch.from_numpy(points)[rows][None]


def test_each_sample_comes_back_with_as_many_points_as_it_stands_for(decoder: Decoder) -> None:
    points, features = torch.randn(2, 3, 3), torch.randn(2, 12, 3)
    counts = torch.tensor([[1, 20, 4], [7, 1, 1]], dtype=torch.int32)
    rebuilt, sizes = decoder(points, features, counts)
    assert rebuilt.shape == (2, 30, 3)
    assert sizes.tolist() == [25, 9]
    for cloud, rows in enumerate(([0, 1, 21], [0, 7, 8])):
        assert torch.equal(rebuilt[cloud, rows], points[cloud])
        assert not rebuilt[cloud, int(sizes[cloud]) :].any()
        real = rebuilt[cloud, : int(sizes[cloud])]
        assert len(real.unique(dim=0)) == len(real)


def test_a_cloud_and_what_is_rebuilt_move_and_grow_together(decoder: Decoder) -> None:
    points, features = torch.randn(1, 40, 3), torch.randn(1, 12, 40)
    counts = torch.full((1, 40), 10)
    rebuilt, _ = decoder(points, features, counts)
    moved, _ = decoder(4 * points + 1, features, counts)
    torch.testing.assert_close(moved, 4 * rebuilt + 1)


def test_a_code_of_eight_bytes_is_all_that_it_takes_from_a_feature(decoder: Decoder) -> None:
    points, features = torch.randn(1, 9, 3), torch.randn(1, 12, 9)
    code = decoder.code(features).to(torch.int8)
    assert code.shape == (1, 8, 9)
    counts = torch.full((1, 9), 10)
    assert torch.equal(
        decoder.rebuild(points, code, counts)[0], decoder(points, features, counts)[0]
    )


def chamfer(a: Tensor, b: Tensor) -> float:
    return float(sum(knn(x, y, 1)[1].sqrt().mean() for x, y in ((a, b), (b, a))))


@torch.no_grad()
@pytest.mark.parametrize("stage", [1, 2])
def test_the_shipped_decoder_beats_a_subset_of_as_many_bytes(milk: Tensor, stage: int) -> None:
    """Of a scan that training did not see; 6 bytes for coordinates, 9 for code and count."""
    encoded = default_encoder()(milk)[stage]
    rebuilt, sizes = default_decoder(stage)(encoded.points, encoded.features, encoded.counts)
    assert sizes.tolist() == [milk.size(1)]
    subset = milk[:, : encoded.points.size(1) * 15 // 6]
    assert chamfer(rebuilt[:, : milk.size(1)], milk) < chamfer(subset, milk)


@torch.no_grad()
def test_the_command_of_the_docs_exports_it(tmp_path: Path, milk: Tensor) -> None:
    page = (Path(__file__).parents[2] / "docs" / "models.md").read_text()
    assert " ".join(EXPORT[1:]) in " ".join(page.replace("\\\n", " ").split())
    assert command.main([EXPORT[0], str(tmp_path / "decoder.pt2"), *EXPORT[1:]]) == 0
    encoded = default_encoder()(milk)[2]
    # As the client has them.
    given = [encoded.points, encoded.features, encoded.counts.long()]
    found = load_program(tmp_path / "decoder.pt2").on(torch.device("cpu"))(given)
    for ours, theirs in zip(found, default_decoder()(*given), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_a_decoder_comes_back_as_it_was_saved(tmp_path: Path) -> None:
    decoders = Decoders(CONFIG)
    save_decoders(decoders, tmp_path / "a", {})
    for stage, decoder in enumerate(decoders):
        loaded = load_decoder(tmp_path / "a", stage)
        assert loaded.each == decoder.each
        for name, tensor in decoder.state_dict().items():
            assert torch.equal(loaded.state_dict()[name], tensor)
    save_encoder(DensityEncoder(CONFIG), tmp_path / "b")
    with pytest.raises(CheckpointError, match=r"expected format 'farpoint.decoders.v1', got"):
        load_decoder(tmp_path / "b", 0)


def test_the_shipped_decoders_are_of_the_shipped_encoder() -> None:
    with safe_open(DECODERS, "pt") as opened:
        assert json.loads(opened.metadata()["config"]) == json.loads(
            default_encoder().config.to_json()
        )
