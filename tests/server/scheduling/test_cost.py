"""Predicted times, and what is learned from measured ones."""

import pytest
from tests.support.scheduling import MS

from farpoint_server.scheduling.cost import KNOWN, MOST, CostModel


class Work:
    def __init__(self, cost_ms: float, kind: str = "sample") -> None:
        self.cost_ns = int(cost_ms * MS)
        self.kind = kind


def test_what_was_never_measured_is_taken_at_its_word():
    assert CostModel().predict_ns(Work(7)) == 7 * MS


def test_a_kind_that_takes_longer_is_predicted_to_and_no_other_kind():
    costs = CostModel()
    costs.observe([Work(10), Work(20)], 90 * MS)
    assert costs.predict_ns(Work(1)) == 3 * MS
    assert costs.predict_ns(Work(1, "encode a")) == MS


def test_long_batches_weigh_more_and_old_ones_are_forgotten():
    costs = CostModel()
    costs.observe([Work(2)], 20 * MS)
    costs.observe([Work(200)], 200 * MS)
    assert costs.predict_ns(Work(100)) < 115 * MS
    for _ in range(60):
        costs.observe([Work(10)], 20 * MS)
    assert costs.predict_ns(Work(100)) == pytest.approx(200 * MS, rel=0.02)


def test_short_batches_teach_nothing():
    costs = CostModel()
    for _ in range(2 * KNOWN):
        costs.observe([Work(0.1)], 5 * MS)
    assert costs.predict_ns(Work(1)) == MS
    assert not costs.is_known(Work(1))


def test_no_measurement_is_believed_beyond_reason():
    costs = CostModel()
    costs.observe([Work(10)], 10_000_000 * MS)
    assert costs.predict_ns(Work(1)) == MOST * MS


def test_a_kind_is_known_after_some_batches():
    costs = CostModel()
    for _ in range(KNOWN):
        assert not costs.is_known(Work(1))
        costs.observe([Work(10)], 10 * MS)
    assert costs.is_known(Work(1))
    assert not costs.is_known(Work(1, "encode a"))
