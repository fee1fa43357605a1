"""The encoder computes the paper's equations, and runs on real scans."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from tests.support import plain_encoder
from tests.support.clouds import street_scan, ten_scans, whole_street_scan
from torch import Tensor

from farpoint_models import DensityEncoder, EncoderConfig, default_encoder


def encoder(**fields: object) -> DensityEncoder:
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


@pytest.mark.parametrize("rates", [(1 / 3,), (0.25, 0.25), (0.5, 0.1, 0.3), (1.0, 0.2)])
def test_any_rates(rates: tuple[float, ...]) -> None:
    assert_faithful(encoder(rates=rates), torch.randn(700, 3))


@pytest.mark.parametrize("attributes", [1, 3])
def test_attributes(attributes: int) -> None:
    xyz, values = torch.randn(500, 3), torch.rand(attributes, 500)
    assert_faithful(encoder(attributes=attributes), xyz, values)


@pytest.mark.parametrize("points", [1, 2, 5, 17, 40])
def test_fewer_points_than_neighbors(points: int) -> None:
    assert_faithful(encoder(neighbors=24), torch.randn(points, 3))


def test_uneven_density() -> None:
    """Collapsed sets of one point and of hundreds."""
    cluster = 0.01 * torch.randn(900, 3)
    assert_faithful(encoder(rates=(0.1, 0.25)), torch.cat([cluster, 5 * torch.randn(100, 3)]))


def test_every_stage_samples_the_stage_before() -> None:
    """One run of sampling serves all stages, as if each had run its own."""
    cloud = torch.randint(0, 6, (800, 3)).float()  # many ties
    from farpoint_ops import furthest_point_sample

    xyz, rows = cloud, torch.arange(800)
    for stage in encoder(rates=(0.5, 0.5, 0.3))(cloud[None]):
        m = stage.indices.size(1)
        picks = furthest_point_sample(xyz[None], m)[0].long()
        xyz, rows = xyz[picks], rows[picks]
        assert torch.equal(stage.indices[0].long(), rows)


@pytest.mark.parametrize("scan_of", [street_scan, whole_street_scan])
def test_a_street(scan_of: Callable[[], np.ndarray]) -> None:
    xyz = torch.from_numpy(scan_of()[:, :3].copy())[None]
    with torch.no_grad():
        stages = default_encoder()(xyz)
    for stage in stages:
        assert stage.counts.sum() == xyz.size(1)
        assert stage.features.isfinite().all()
    assert stages[0].counts.max() > 4 * stages[0].counts.float().mean()  # it is dense near the car


def test_scans_of_unequal_size_share_a_batch() -> None:
    scans = [torch.from_numpy(scan[:, :3].copy()) for scan in ten_scans()[:3]]
    lengths = torch.tensor([len(scan) for scan in scans])
    padded = torch.nn.utils.rnn.pad_sequence(scans, batch_first=True, padding_value=np.nan)
    encoder = default_encoder()
    with torch.no_grad():
        together = encoder(padded, lengths=lengths)
        for b in range(3):
            for ours, alone in zip(together, encoder(scans[b][None]), strict=True):
                m = alone.indices.size(1)
                assert torch.equal(ours.indices[b, :m], alone.indices[0])
                assert torch.equal(ours.counts[b, :m], alone.counts[0])
                torch.testing.assert_close(
                    ours.features[b, :, :m], alone.features[0], rtol=1e-3, atol=1e-3
                )
