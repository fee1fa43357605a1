"""Predicted times, and what is learned from measured ones."""

import pytest
from tests.support.scheduling import MS

from farpoint_server.scheduling.lane import CostModel


class Work:
    def __init__(self, cost_ms: float, kind: str = "sample") -> None:
        self.cost_ns = int(cost_ms * MS)
        self.cost_key = kind


def test_what_was_never_measured_is_taken_at_its_word():
    assert CostModel().predict_ns(Work(7)) == 7 * MS


def test_a_kind_that_takes_longer_is_predicted_to_and_no_other_kind():
    costs = CostModel()
    costs.observe([Work(10), Work(12)], 66 * MS)
    assert costs.predict_ns(Work(11)) == 33 * MS
    assert costs.predict_ns(Work(11, "encode a")) == 11 * MS


def test_what_large_work_takes_longer_says_nothing_of_small_work():
    costs = CostModel()
    costs.observe([Work(40)], 800 * MS)
    assert costs.predict_ns(Work(3)) == 3 * MS
    costs.observe([Work(3), Work(40)], 43 * MS)
    assert costs.predict_ns(Work(3)) == 3 * MS
    assert 200 * MS < costs.predict_ns(Work(40)) < 800 * MS


def test_how_wrong_a_measurement_may_be_at_most():
    costs = CostModel()
    costs.observe([Work(16)], 1)
    assert costs.predict_ns(Work(16)) == 1 * MS
    costs = CostModel()
    costs.observe([Work(16)], 10**15)
    assert costs.predict_ns(Work(16)) == 256 * MS


def test_two_milliseconds_teach_something_and_a_fifth_batch_makes_it_known():
    costs = CostModel()
    costs.observe([Work(1.999_999)], 20 * MS)
    assert costs.predict_ns(Work(2)) == 2 * MS
    for _ in range(4):
        costs.observe([Work(2)], 20 * MS)
    assert costs.predict_ns(Work(2)) == 20 * MS
    assert not costs.is_known(Work(2))
    costs.observe([Work(2)], 20 * MS)
    assert costs.is_known(Work(2))


def test_each_batch_takes_a_tenth_of_the_weight_of_those_before():
    costs = CostModel()
    costs.observe([Work(10)], 10 * MS)
    costs.observe([Work(10)], 30 * MS)
    # 0.9 * 10 + 30 over 0.9 * 10 + 10
    assert costs.predict_ns(Work(19)) == pytest.approx(39 * MS, abs=1)


def test_sizes_within_a_factor_of_four_share_what_is_learned():
    costs, least = CostModel(), 1 << 23
    costs.observe([Work(least / MS)], 3 * least)
    assert costs.predict_ns(Work(4 * least / MS - 1)) > 11 * least
    for other in (least - 1, 4 * least):
        assert costs.predict_ns(Work(other / MS)) == other


def test_the_time_of_a_batch_is_shared_out_by_the_estimates():
    costs = CostModel()
    costs.observe([Work(0), Work(3), Work(3), Work(30)], 72 * MS)
    assert costs.predict_ns(Work(3)) == 6 * MS
    assert costs.predict_ns(Work(30)) == 60 * MS
    assert costs.predict_ns(Work(0)) == 0
