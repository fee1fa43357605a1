"""Promises of the encoder to its callers."""

import dataclasses

import pytest
import torch
from torch import Tensor

from farpoint_models import DensityEncoder, EncodedStage, EncoderConfig

CONFIG = EncoderConfig(rates=(0.25, 0.5), channels=16, hidden=8, neighbors=8, groups=2)


@pytest.fixture
def encoder() -> DensityEncoder:
    torch.manual_seed(0)
    return DensityEncoder(CONFIG).eval()


@pytest.fixture
def cloud() -> Tensor:
    return torch.randn(2, 600, 3, generator=torch.Generator().manual_seed(1))


def assert_same(a: tuple[EncodedStage, ...], b: tuple[EncodedStage, ...], atol: float) -> None:
    for ours, theirs in zip(a, b, strict=True):
        assert torch.equal(ours.indices, theirs.indices)
        assert torch.equal(ours.counts, theirs.counts)
        torch.testing.assert_close(ours.features, theirs.features, rtol=0, atol=atol)


def test_shapes_and_dtypes(encoder: DensityEncoder, cloud: Tensor) -> None:
    for stage, m in zip(encoder(cloud), (150, 75), strict=True):
        assert stage.indices.shape == (2, m)
        assert stage.indices.dtype == stage.counts.dtype == torch.int32
        assert stage.features.shape == (2, 16, m)
        assert stage.mean_distance.shape == (2, m)
        assert stage.lengths is None
        rows = stage.indices.long()
        assert torch.equal(stage.points, cloud[torch.arange(2)[:, None], rows])


def test_coincident_points_are_counted_once(encoder: DensityEncoder) -> None:
    cloud = torch.ones(1, 40, 3)
    for stage in encoder(cloud):
        assert stage.counts[0, 0] == 40
        assert stage.counts.sum() == 40
        assert stage.features.isfinite().all()


def test_padding_changes_nothing(encoder: DensityEncoder, cloud: Tensor) -> None:
    """Each cloud of a padded batch comes out as it does alone, whatever the padding holds."""
    lengths = torch.tensor([600, 333])
    cloud[1, 333:] = torch.nan
    padded = encoder(cloud, lengths=lengths)
    for b, length in enumerate(lengths.tolist()):
        for ours, alone in zip(padded, encoder(cloud[b : b + 1, :length]), strict=True):
            m = alone.indices.size(1)
            assert ours.lengths is not None
            assert ours.lengths[b] == m
            assert torch.equal(ours.indices[b, :m], alone.indices[0])
            assert torch.equal(ours.points[b, :m], alone.points[0])
            assert torch.equal(ours.counts[b, :m], alone.counts[0])
            torch.testing.assert_close(
                ours.features[b, :, :m], alone.features[0], rtol=0, atol=1e-5
            )
            assert (ours.indices[b, m:] == -1).all()
            assert not ours.features[b, :, m:].any()
            assert not ours.points[b, m:].any()
            assert ours.counts[b].sum() == length


@pytest.mark.parametrize("length", [1, 2, 5])
def test_a_tiny_cloud_may_share_a_batch(
    encoder: DensityEncoder, cloud: Tensor, length: int
) -> None:
    padded = encoder(cloud, lengths=torch.tensor([600, length]))
    for ours, alone in zip(padded, encoder(cloud[1:, :length]), strict=True):
        m = alone.indices.size(1)
        torch.testing.assert_close(ours.features[1, :, :m], alone.features[0], rtol=0, atol=1e-5)


def test_map_coordinates_give_the_features_of_centered_ones(encoder: DensityEncoder) -> None:
    centered = (100 * torch.rand(1, 800, 3, dtype=torch.float64)).float().double()
    utm = centered + torch.tensor([512_701.0, 5_403_550.0, 295.0], dtype=torch.float64)
    assert_same(encoder(utm), encoder(centered - centered[:, :1]), 1e-4)
    assert encoder(utm)[0].points.dtype == torch.float64


def test_moving_a_float32_cloud_changes_nothing(encoder: DensityEncoder) -> None:
    """On coordinates that float32 still holds exactly after the move."""
    cloud = torch.randint(-512, 512, (1, 700, 3)).float() / 256
    assert_same(encoder(cloud + 1000), encoder(cloud), 1e-5)


def test_the_order_of_points_does_not_matter(encoder: DensityEncoder, cloud: Tensor) -> None:
    order = torch.randperm(600)
    start = torch.nonzero(order == 0)[0].expand(2)
    for ours, shuffled in zip(encoder(cloud), encoder(cloud[:, order], start=start), strict=True):
        assert torch.equal(order[shuffled.indices.long()], ours.indices.long())
        assert torch.equal(shuffled.counts, ours.counts)
        torch.testing.assert_close(shuffled.features, ours.features, rtol=0, atol=1e-5)


def test_attributes_change_features_and_nothing_else(cloud: Tensor) -> None:
    model = DensityEncoder(dataclasses.replace(CONFIG, attributes=2))
    dark, bright = model(cloud, torch.zeros(2, 2, 600)), model(cloud, torch.ones(2, 2, 600))
    for a, b in zip(dark, bright, strict=True):
        assert torch.equal(a.indices, b.indices)
        assert not torch.allclose(a.features, b.features, atol=1e-2)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast(encoder: DensityEncoder, cloud: Tensor, dtype: torch.dtype) -> None:
    """The same points are chosen, and features agree as far as the short dtype goes."""
    exact = encoder(cloud)
    with torch.autocast("cpu", dtype):
        short = encoder(cloud)
    for a, b in zip(exact, short, strict=True):
        assert torch.equal(a.indices, b.indices)
        assert torch.equal(a.counts, b.counts)
        torch.testing.assert_close(b.features.float(), a.features, rtol=0.1, atol=0.1)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_weights(encoder: DensityEncoder, cloud: Tensor, dtype: torch.dtype) -> None:
    """Coordinates and choices stay in float32."""
    exact = encoder(cloud)
    for a, b in zip(exact, encoder.to(dtype)(cloud), strict=True):
        assert torch.equal(a.indices, b.indices)
        assert b.features.dtype == dtype
        torch.testing.assert_close(b.features.float(), a.features, rtol=0.1, atol=0.1)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_coordinates(encoder: DensityEncoder, cloud: Tensor, dtype: torch.dtype) -> None:
    half = cloud.to(dtype)
    assert_same(encoder(half), encoder(half.float()), 1e-6)
    assert encoder(half)[0].points.dtype == dtype


CLOUD = torch.zeros(1, 9, 3)


@pytest.mark.parametrize(
    ("error", "message", "xyz", "options"),
    [
        (TypeError, "xyz: expected float32", CLOUD.long(), {}),
        (ValueError, "xyz: expected shape", CLOUD[0], {}),
        (ValueError, "xyz: expected shape", torch.zeros(1, 9, 4), {}),
        (ValueError, "xyz: expected shape", torch.zeros(1, 0, 3), {}),
        (ValueError, "attributes: expected shape", CLOUD, {"attributes": torch.zeros(1, 1, 9)}),
        (ValueError, "lengths: expected shape", CLOUD, {"lengths": torch.tensor([9, 9])}),
        (TypeError, "lengths: expected int32", CLOUD, {"lengths": torch.tensor([9.0])}),
    ],
)
def test_an_error_names_the_argument(
    encoder: DensityEncoder,
    error: type[Exception],
    message: str,
    xyz: Tensor,
    options: dict[str, Tensor],
) -> None:
    with pytest.raises(error, match=message):
        encoder(xyz, **options)


def test_a_model_of_attributes_does_not_run_without_them(cloud: Tensor) -> None:
    model = DensityEncoder(dataclasses.replace(CONFIG, attributes=1))
    with pytest.raises(ValueError, match=r"attributes: expected shape \(2, 1, 600\), got None"):
        model(cloud)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("rates", ()),
        ("rates", (0.0,)),
        ("rates", (1.5,)),
        ("channels", 0),
        ("hidden", 7),
        ("neighbors", -1),
        ("attributes", 10**6),
    ],
)
def test_a_config_that_makes_no_sense_is_refused(field: str, value: object) -> None:
    with pytest.raises(ValueError, match=f"{field}: expected"):
        EncoderConfig(**{field: value})
