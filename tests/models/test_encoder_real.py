"""The shipped encoder on real scans."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from tests.support.clouds import street_scan, ten_scans, whole_street_scan

from farpoint_models import default_encoder


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
