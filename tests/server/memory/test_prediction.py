"""Predicted bytes, how they learn, and which batches are watched."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.memory.fake_allocator import FakeAllocator

from farpoint_server.memory.prediction import (
    LEAST,
    LOOK_EVERY_S,
    MOST,
    OBSERVED_BYTES,
    Correction,
    Demand,
    UsageTracker,
    sample_bytes,
)

MIB = 1 << 20

COUNTS = st.integers(1, 1 << 24)


@given(points=COUNTS, clouds=COUNTS, samples=COUNTS, more=st.integers(0, 1 << 20))
def test_a_prediction_never_falls_as_work_grows(points, clouds, samples, more):
    size = sample_bytes(points, clouds, samples)
    assert sample_bytes(points + more, clouds, samples) >= size
    assert sample_bytes(points, clouds + more, samples) >= size
    assert sample_bytes(points, clouds, samples + more) >= size


def test_a_prediction_holds_at_least_the_input_and_the_answer():
    assert sample_bytes(100_000, 4, 5_000) >= 100_000 * 12 + 5_000 * 8


def test_corrections_approach_what_is_seen():
    correction = Correction()
    for _ in range(50):
        correction = correction.observe(predicted=1000, observed=500)
    assert correction.factor == pytest.approx(0.5, rel=1e-3)
    assert correction.error < 0.01
    for _ in range(50):
        correction = correction.observe(predicted=1000, observed=1500)
    assert correction.apply(1000) == pytest.approx(1500, rel=1e-3)


@given(st.lists(st.tuples(st.integers(1, 10**9), st.integers(0, 10**12)), max_size=30))
def test_no_observation_moves_a_correction_out_of_bounds(seen):
    correction = Correction()
    for predicted, observed in seen:
        correction = correction.observe(predicted, observed).after_oom()
        assert LEAST <= correction.factor <= MOST
        assert correction.optimistic(predicted) <= predicted


def test_demand_halves_in_its_time_and_a_larger_batch_raises_it_at_once():
    demand = Demand(half_life_s=300).observe(1000, now=0.0)
    assert demand.now(300.0) == 500
    assert demand.observe(400, now=300.0).now(300.0) == 500
    assert demand.observe(900, now=300.0).now(300.0) == 900


class Looked(FakeAllocator):
    """Counts the looks; each batch takes 3 MiB."""

    looks = 0

    def begin_peak(self) -> None:
        self.looks += 1

    def peak(self) -> int:
        return 3 * MIB


@pytest.fixture
def watched():
    now = [100.0]
    allocator = Looked(1 << 30)
    return allocator, UsageTracker(allocator, lambda: now[0]), now


def test_small_batches_are_not_watched_and_others_now_and_then(watched):
    allocator, tracker, now = watched
    assert tracker.watch(lambda: "answer", OBSERVED_BYTES - 1) == "answer"
    assert (allocator.looks, tracker.demand) == (0, 0)
    for _ in range(3):
        assert tracker.watch(lambda: "answer", 2 * MIB) == "answer"
    assert allocator.looks == 1
    now[0] += 2 * LOOK_EVERY_S
    tracker.watch(lambda: "answer", 2 * MIB)
    assert allocator.looks == 2


def test_a_larger_batch_is_watched_at_once(watched):
    allocator, tracker, _ = watched
    tracker.watch(lambda: None, 2 * MIB)
    tracker.watch(lambda: None, 4 * MIB)
    assert allocator.looks == 2


def test_what_is_not_watched_counts_as_much_as_it_is_predicted_to_take(watched):
    _, tracker, _ = watched
    tracker.watch(lambda: None, 4 * MIB)
    assert tracker.demand == 3 * MIB
    tracker.watch(lambda: None, 4 * MIB)
    assert tracker.demand == 3 * MIB
    assert tracker.correction.observations == 1


def test_nothing_is_learned_from_batches_that_ran_beside_each_other(watched):
    """The peak of both says nothing of either."""
    allocator, tracker, now = watched

    def beside() -> None:
        now[0] += 2 * LOOK_EVERY_S
        tracker.watch(lambda: None, 8 * MIB)

    tracker.watch(beside, 2 * MIB)
    assert (allocator.looks, tracker.correction.observations) == (1, 0)
    now[0] += 2 * LOOK_EVERY_S
    tracker.watch(lambda: None, 2 * MIB)
    assert (allocator.looks, tracker.correction.observations) == (2, 1)


def test_a_small_batch_beside_a_large_one_does_not_keep_it_from_being_learned_from(watched):
    _, tracker, _ = watched
    tracker.watch(lambda: tracker.watch(lambda: None, OBSERVED_BYTES - 1), 2 * MIB)
    assert tracker.correction.observations == 1
