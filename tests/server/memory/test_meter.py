"""Which forwards are watched: a look at a process's heap costs more than a small batch."""

import pytest
from tests.support.fake_allocator import FakeAllocator

from farpoint_server.memory.meter import LOOK_EVERY_S, OBSERVED_BYTES, Meter

MIB = 1 << 20


class Looked(FakeAllocator):
    """Counts the looks; each forward takes 3 MiB."""

    looks = 0

    def begin_peak(self) -> None:
        self.looks += 1

    def peak(self) -> int:
        return 3 * MIB


@pytest.fixture
def watched():
    now = [100.0]
    allocator = Looked(1 << 30)
    return allocator, Meter(allocator, lambda: now[0]), now


def test_small_forwards_are_not_watched_and_others_now_and_then(watched):
    allocator, meter, now = watched
    assert meter.watch(lambda: "answer", OBSERVED_BYTES - 1) == "answer"
    assert (allocator.looks, meter.demand) == (0, 0)
    for _ in range(3):
        assert meter.watch(lambda: "answer", 2 * MIB) == "answer"
    assert allocator.looks == 1
    now[0] += 2 * LOOK_EVERY_S
    meter.watch(lambda: "answer", 2 * MIB)
    assert allocator.looks == 2


def test_a_larger_forward_is_watched_at_once(watched):
    allocator, meter, _ = watched
    meter.watch(lambda: None, 2 * MIB)
    meter.watch(lambda: None, 4 * MIB)
    assert allocator.looks == 2


def test_what_is_not_watched_counts_as_much_as_it_is_predicted_to_take(watched):
    _, meter, _ = watched
    meter.watch(lambda: None, 4 * MIB)
    assert meter.demand == 3 * MIB
    meter.watch(lambda: None, 4 * MIB)
    assert meter.demand == 3 * MIB
    assert meter.correction.observations == 1
