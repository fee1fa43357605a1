"""Random schedules on the fake, which raises where a GPU would be harmed."""

import gc
from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.support.memory.simulation import GIB, MIB, Request, Simulation, Tensor

from farpoint_server.compute.memory.policy import Thresholds

# Seconds of computing, which a machine with much else to do turns into minutes.
pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module", autouse=True)
def collector_looks_at_the_new_alone() -> Iterator[None]:
    """Recovering collects garbage, hundreds of times here, among all that other tests have left."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


SIZES = st.sampled_from([0.01, 0.7, 3, 9, 40, 300, 900]).map(lambda mib: int(mib * MIB))
REQUESTS = st.builds(Request, st.just("r"), st.lists(SIZES, min_size=1, max_size=4).map(tuple))
BATCHES = st.lists(REQUESTS, min_size=1, max_size=4)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("batch"), BATCHES),
        st.tuples(st.just("wait"), st.sampled_from([0.25, 3.0, 12.0, 45.0])),
        st.tuples(st.just("queue"), st.sampled_from([1.0, 15.0])),
        st.tuples(st.just("others"), st.sampled_from([0, 2 * GIB, 5 * GIB, 7 * GIB])),
        st.tuples(st.just("capture"), st.booleans()),
        st.tuples(st.just("keep"), SIZES),
        st.tuples(st.just("pin"), SIZES),
    ),
    max_size=40,
)


def play(simulation: Simulation, steps: list) -> None:
    """Plays a schedule; a second engine on the same gate polls in the middle of each batch."""
    other = simulation.new_manager()
    simulation.meanwhile = lambda: other.poll(waiting=0)
    kept = []
    for kind, value in steps:
        if kind == "batch":
            simulation.run(*value)
        elif kind == "wait":
            simulation.wait(value)
        elif kind == "queue":
            simulation.wait(value, waiting=3)
        elif kind == "others":
            simulation.allocator.others = value
        elif kind == "capture":
            simulation.allocator.in_capture = value
        elif kind == "pin":
            simulation.allocator.pinned_cached += value
        elif simulation.allocator.headroom().free > GIB:
            kept.append(Tensor(simulation.allocator, value))
        simulation.manager.poll(waiting=0)
    simulation.allocator.in_capture = False
    simulation.wait(60)


# An idle cache in a capture.
@example([("batch", [Request("r", (900 * MIB,))]), ("capture", True), ("wait", 45.0)])
@given(STEPS)
@settings(max_examples=60, deadline=None)
def test_no_schedule_trims_in_flight_in_capture_or_too_often(steps):
    simulation = Simulation(total=8 * GIB)
    play(simulation, steps)
    times = [trim["at"] for trim in simulation.trims()]
    interval = simulation.thresholds.interval_s
    assert all(b - a >= interval for a, b in pairwise(times))
    for trim in simulation.trims():
        left = trim["left"]
        assert left.releasable == 0
        assert left.reserved == left.allocated


@given(STEPS)
@settings(max_examples=20, deadline=None)
def test_after_a_minute_without_work_all_that_can_be_released_is(steps):
    simulation = Simulation(total=8 * GIB)
    play(simulation, steps)
    simulation.wait(60)
    stats = simulation.allocator.stats()
    assert stats.releasable + stats.host_releasable < simulation.thresholds.min_trim_bytes


@given(
    cycle=st.lists(BATCHES, min_size=1, max_size=5),
    weights=st.lists(SIZES, max_size=6),
    pause=st.sampled_from([0.05, 1.0, 8.0]),
    others=st.sampled_from([0, 3 * GIB, 11 * GIB]),
)
@settings(max_examples=15, deadline=None)
def test_constant_load_is_not_trimmed_after_warming_up(cycle, weights, pause, others):
    simulation = Simulation(total=16 * GIB, others=others, thresholds=Thresholds(interval_s=2))
    kept = [Tensor(simulation.allocator, size) for size in weights]
    for repeat in range(60):
        if repeat == 20:
            warm = len(simulation.trims())
        for batch in cycle:
            simulation.run(*batch)
            simulation.wait(pause)
    assert simulation.trims()[warm:] == []
    del kept


def test_other_processes_get_room_though_requests_wait():
    simulation = Simulation(total=8 * GIB)
    simulation.run(Request("large", (900 * MIB,) * 4))
    simulation.allocator.others = 4 * GIB
    simulation.wait(2, waiting=5)
    assert [trim["reason"] for trim in simulation.trims()] == ["hard"]
    assert simulation.allocator.headroom().free == 4 * GIB
