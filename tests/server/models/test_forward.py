"""How the clouds of a request are brought together for an encoder, and taken apart again."""

import numpy as np
import pytest
import torch
from tests.support.fake_device import FakeDevice

from farpoint_models import DensityEncoder, EncoderConfig
from farpoint_server.engine.thread import FEW_CORES_NS
from farpoint_server.engine.transfer.pipeline import Pipeline
from farpoint_server.engine.types import EncoderInput
from farpoint_server.memory.gate import Gate
from farpoint_server.models.batching import CALL_ROWS, groups
from farpoint_server.models.forward import EncodeWork, run_encoder

RANDOM = np.random.default_rng(5)
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def encoder() -> DensityEncoder:
    torch.manual_seed(0)
    config = EncoderConfig(
        rates=(0.3, 0.5), channels=4, hidden=4, neighbors=4, groups=2, attributes=1
    )
    return DensityEncoder(config).eval()


def clouds(*lengths: int) -> EncoderInput:
    total = sum(lengths)
    return EncoderInput(
        RANDOM.random((total, 3), np.float32),
        RANDOM.random((total, 1), np.float32),
        np.array(lengths),
    )


def run(work: EncodeWork):
    return work.run(CPU, None)


@pytest.mark.parametrize(
    "lengths", [[5], [7, 7, 7], [1, 1000, 3, 2], [CALL_ROWS, CALL_ROWS], [90, 100] * 1000]
)
def test_groups_hold_every_cloud_once_and_little_padding(lengths):
    lengths = np.array(lengths)
    found = list(groups(lengths))
    assert sorted(np.concatenate(found)) == list(range(len(lengths)))
    for group in found:
        rows = len(group) * lengths[group].max()
        assert rows <= 2 * lengths[group].sum()
        assert len(group) == 1 or rows <= CALL_ROWS


def test_equal_clouds_share_one_group():
    assert [len(group) for group in groups(np.full(8, 1000))] == [8]


def test_clouds_come_back_in_the_order_of_the_request(encoder):
    together = clouds(40, 5, 33, 90, 1)
    whole = run_encoder(encoder, together)
    ends = together.lengths.cumsum()
    for cloud, (begin, end) in enumerate(zip(ends - together.lengths, ends, strict=True)):
        alone = EncoderInput(
            together.points[begin:end], together.attributes[begin:end], np.array([end - begin])
        )
        for got, expected in zip(whole, run_encoder(encoder, alone), strict=True):
            stop = got.lengths.cumsum()[cloud]
            part = slice(stop - got.lengths[cloud], stop)
            np.testing.assert_array_equal(got.indices[part], expected.indices)
            np.testing.assert_array_equal(got.counts[part], expected.counts)
            np.testing.assert_allclose(got.features[part], expected.features, atol=1e-5)


def test_a_device_is_given_the_same_and_answers_the_same(encoder):
    gate, device = Gate(), FakeDevice(stand_in=torch.ones_like)
    pipeline = Pipeline(device, gate.hold_shared)
    for lengths in ((40, 33), (21, 21)):
        request = clouds(*lengths)
        with gate.reading():
            on_device = run_encoder(encoder, request, pipeline)
        for got, expected in zip(on_device, run_encoder(encoder, request), strict=True):
            for name, value in vars(expected).items():
                np.testing.assert_array_equal(getattr(got, name), value, err_msg=name)
    pipeline.wait(0)
    assert not device.races
    pipeline.stop()


def test_a_request_that_was_halved_is_answered_like_a_whole_one(encoder):
    work = EncodeWork({CPU: encoder}, clouds(20, 21, 22))
    left, right = work.halve()
    (joined,) = (left.join(a, b) for a, b in zip(run(left), run(right), strict=True))
    for got, expected in zip(joined, run_encoder(encoder, work.clouds), strict=True):
        assert got.lengths.tolist() == expected.lengths.tolist()
        np.testing.assert_array_equal(got.indices, expected.indices)
        np.testing.assert_allclose(got.features, expected.features, atol=1e-5)
    assert EncodeWork({CPU: encoder}, clouds(9)).halve() is None


def test_more_points_are_predicted_to_take_more_time_and_never_little(encoder):
    """However small it is, a forward pass takes too long for the event loop."""
    small, large = (EncodeWork({CPU: encoder}, clouds(n)).cost_ns for n in (1, 10_000))
    assert FEW_CORES_NS < small < large


def test_a_request_that_was_given_up_is_not_begun(encoder):
    work = EncodeWork({CPU: encoder}, clouds(20, 21))
    left, _ = work.halve()
    work.cancel(0)
    assert run(left) == [[]]
