"""Promises of the encoder to its callers, the equations of the paper, and real scans."""

import dataclasses

import pytest
import torch
from tests.support import plain_encoder
from torch import Tensor

from farpoint_models import DensityEncoder, EncodedStage, EncoderConfig

CONFIG = EncoderConfig(rates=(0.25, 0.5), channels=16, hidden=8, neighbors=8, groups=2)
SURFACE = dataclasses.replace(CONFIG, invariant=6, upright=4)


@pytest.fixture(params=[CONFIG, SURFACE], ids=["oriented", "surface"])
def encoder(request: pytest.FixtureRequest) -> DensityEncoder:
    torch.manual_seed(0)
    return DensityEncoder(request.param).eval()


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


def assert_as_alone(
    encoder: DensityEncoder, padded: Tensor, lengths: list[int], atol: float
) -> None:
    """Each cloud of a padded batch comes out as it does alone, and zeros behind."""
    together = encoder(padded, lengths=torch.tensor(lengths))
    for b, length in enumerate(lengths):
        for ours, alone in zip(together, encoder(padded[b : b + 1, :length]), strict=True):
            m = alone.indices.size(1)
            assert ours.lengths is not None
            assert ours.lengths[b] == m
            assert torch.equal(ours.indices[b, :m], alone.indices[0])
            assert torch.equal(ours.points[b, :m], alone.points[0])
            assert torch.equal(ours.counts[b, :m], alone.counts[0])
            features = ours.features[b]
            torch.testing.assert_close(features[:, :m], alone.features[0], rtol=atol, atol=atol)
            assert (ours.indices[b, m:] == -1).all()
            assert not features[:, m:].any()
            assert not ours.points[b, m:].any()
            assert ours.counts[b].sum() == length


@pytest.mark.parametrize("length", [1, 2, 5, 333])
def test_padding_changes_nothing(encoder: DensityEncoder, cloud: Tensor, length: int) -> None:
    cloud[1, length:] = torch.nan
    assert_as_alone(encoder, cloud, [600, length], 1e-5)


def test_map_coordinates_give_the_features_of_centered_ones(encoder: DensityEncoder) -> None:
    centered = (100 * torch.rand(1, 800, 3, dtype=torch.float64)).float().double()
    utm = centered + torch.tensor([512_701.0, 5_403_550.0, 295.0], dtype=torch.float64)
    assert_same(encoder(utm), encoder(centered - centered[:, :1]), 1e-4)
    assert encoder(utm)[0].points.dtype == torch.float64


def test_the_order_of_points_does_not_matter(encoder: DensityEncoder, cloud: Tensor) -> None:
    order = torch.randperm(600)
    start = torch.nonzero(order == 0)[0].expand(2)
    for ours, shuffled in zip(encoder(cloud), encoder(cloud[:, order], start=start), strict=True):
        assert torch.equal(order[shuffled.indices.long()], ours.indices.long())
        assert torch.equal(shuffled.counts, ours.counts)
        torch.testing.assert_close(shuffled.features, ours.features, rtol=0, atol=1e-5)


def turned(cloud: Tensor, *, about_z: bool) -> Tensor:
    """Rotated, grown and moved; in float64, so that the choice of samples stays."""
    turn = torch.linalg.qr(torch.randn(3, 3, dtype=torch.float64))[0]
    turn = turn * turn.det()
    if about_z:
        turn = torch.tensor([[0.8, -0.6, 0], [0.6, 0.8, 0], [0, 0, 1]], dtype=torch.float64)
    return 40 * cloud.double() @ turn + 1000


def test_a_rotation_changes_no_invariant_feature(cloud: Tensor) -> None:
    """Neither does the unit; a turn about z changes no upright one either, but the others."""
    torch.manual_seed(0)
    encoder = DensityEncoder(SURFACE).eval()
    for about_z, same in ((False, 6), (True, 10)):
        pairs = zip(encoder(cloud), encoder(turned(cloud, about_z=about_z)), strict=True)
        for a, b in pairs:
            assert torch.equal(a.indices, b.indices)
            gaps = (a.features - b.features).abs().amax((0, 2))
            assert gaps[:same].max() < 1e-4
            assert gaps[same:].min() > 1e-3


@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_weights_and_autocast(
    encoder: DensityEncoder, cloud: Tensor, dtype: torch.dtype, autocast: bool
) -> None:
    """Coordinates and choices stay in float32; features agree as far as the short dtype goes."""
    exact = encoder(cloud)
    with torch.autocast("cpu", dtype, enabled=autocast):
        short = (encoder if autocast else encoder.to(dtype))(cloud)
    for a, b in zip(exact, short, strict=True):
        assert torch.equal(a.indices, b.indices)
        assert torch.equal(a.counts, b.counts)
        assert autocast or b.features.dtype == dtype
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


def random_encoder(**fields: object) -> DensityEncoder:
    torch.manual_seed(3)
    model = DensityEncoder(EncoderConfig(**fields)).eval()
    # Fresh biases and norms are 0 and 1, which would hide a mistake in them.
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    return model


def assert_faithful(model: DensityEncoder, xyz: Tensor, attributes: Tensor | None = None) -> None:
    with torch.no_grad():
        encoded = model(xyz[None], None if attributes is None else attributes[None])
        plain = plain_encoder.encode(model, xyz, attributes)
    for ours, theirs in zip(encoded, plain, strict=True):
        assert torch.equal(ours.indices[0].long(), theirs.indices)
        assert torch.equal(ours.points[0], theirs.points)
        assert torch.equal(ours.counts[0].long(), theirs.counts)
        torch.testing.assert_close(ours.mean_distance[0], theirs.mean_distance)
        torch.testing.assert_close(ours.features[0], theirs.features, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("points", "fields"),
    [
        *((700, {"rates": r}) for r in ((1 / 3,), (0.25, 0.25), (0.5, 0.1, 0.3), (1.0, 0.2))),
        *((500, {"attributes": count}) for count in (1, 3)),
        *((n, {"neighbors": 24}) for n in (1, 2, 5, 17, 40)),
        *((n, {"attributes": n % 2, "invariant": 9, "upright": 3}) for n in (1, 2, 17, 500)),
    ],
)
def test_equals_the_equations(points: int, fields: dict[str, object]) -> None:
    """For any rates, with attributes, with fewer points than neighbors, and in a dense cluster."""
    model, xyz = random_encoder(**fields), torch.randn(points, 3)
    xyz[: points // 2] *= 0.01  # collapsed sets of one point and of hundreds
    count = model.config.attributes
    assert_faithful(model, xyz, torch.rand(count, points) if count else None)
