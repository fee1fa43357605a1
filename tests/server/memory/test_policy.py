"""Each level alone, what keeps it from firing, and what it remembers."""

from dataclasses import replace

import pytest

from farpoint_server.memory.allocator import Room, Stats
from farpoint_server.memory.policy import History, Signals, Thresholds, TrimLevel, decide, trimmed

MIB, GIB = 1 << 20, 1 << 30
THRESHOLDS = Thresholds()


def seen(now: float = 100.0, **changes: object) -> Signals:
    """A busy GPU of 16 GiB with much free and little cached."""
    calm = Signals(
        now=now,
        stats=Stats(allocated=1 * GIB, reserved=1536 * MIB, releasable=512 * MIB),
        room=Room(free=8 * GIB, total=16 * GIB),
        demand=1 * GIB,
        waiting=0,
        last_work=now,
    )
    return replace(calm, **changes)


def cached(size: int, **stats: int) -> Stats:
    return Stats(allocated=1 * GIB, reserved=1 * GIB + size, releasable=size, **stats)


NEARLY_FULL = Room(free=900 * MIB, total=16 * GIB)
LONG_AGO = History(soft_since=0.0)


@pytest.mark.parametrize(
    ("signals", "history", "level"),
    [
        (seen(), History(), None),
        (seen(room=NEARLY_FULL), History(), TrimLevel.HARD),
        (seen(room=NEARLY_FULL, waiting=9), History(), TrimLevel.HARD),
        (seen(room=Room(free=2 * GIB, total=80 * GIB)), History(), TrimLevel.HARD),
        (seen(room=Room(free=2 * GIB, total=60 * GIB)), History(), None),
        (seen(stats=cached(3 * GIB)), LONG_AGO, TrimLevel.SOFT),
        (seen(stats=cached(3 * GIB)), History(), None),
        (seen(stats=cached(3 * GIB), waiting=1), LONG_AGO, None),
        (seen(stats=cached(3 * GIB), demand=2 * GIB), LONG_AGO, None),
        (seen(last_work=69.9), History(), TrimLevel.IDLE),
        (seen(last_work=70.1), History(), None),
        (seen(last_work=0.0, waiting=1), History(), None),
        (seen(last_work=0.0, stats=cached(63 * MIB)), History(), None),
        (seen(room=NEARLY_FULL, stats=cached(63 * MIB)), History(), None),
    ],
)
def test_a_level_fires_when_its_condition_holds(signals, history, level):
    assert decide(signals, history, THRESHOLDS)[0] is level


def test_fragmentation_fires_when_much_is_split_and_far_more_is_reserved_than_used():
    stats = Stats(allocated=GIB, reserved=3 * GIB, releasable=GIB, split=GIB)
    assert decide(seen(stats=stats), History(), THRESHOLDS)[0] is TrimLevel.FRAGMENTATION
    assert decide(seen(stats=stats, demand=2 * GIB), History(), THRESHOLDS)[0] is None
    assert decide(seen(stats=replace(stats, split=GIB // 2)), History(), THRESHOLDS)[0] is None


def test_soft_needs_its_time_without_a_break():
    much, little = cached(3 * GIB), cached(GIB)
    history = History()
    fired = []
    for now, stats in [(0, much), (1.5, much), (2.5, little), (3, much), (4.9, much), (5, much)]:
        level, history = decide(seen(float(now), stats=stats), history, THRESHOLDS)
        fired.append(level)
    assert fired == [None] * 5 + [TrimLevel.SOFT]


def test_no_level_fires_within_the_interval_of_any_trim():
    full = seen(room=NEARLY_FULL)
    assert decide(full, History(last_trim=90.1), THRESHOLDS)[0] is None
    assert decide(full, History(last_trim=90.0), THRESHOLDS)[0] is TrimLevel.HARD


def test_pinned_memory_alone_is_worth_an_idle_trim_but_no_other():
    pinned = Stats(host_reserved=GIB, host_releasable=GIB)
    assert decide(seen(stats=pinned, last_work=0.0), History(), THRESHOLDS)[0] is TrimLevel.IDLE
    assert decide(seen(stats=pinned, room=NEARLY_FULL), LONG_AGO, THRESHOLDS)[0] is None


def test_what_a_trim_could_not_release_is_not_tried_again():
    idle = seen(last_work=0.0)
    history = trimmed(idle, History(), left=idle.stats, level=TrimLevel.IDLE)
    later = replace(idle, now=idle.now + 60)
    assert decide(later, history, THRESHOLDS)[0] is None
    more = replace(later, stats=cached(512 * MIB + THRESHOLDS.min_trim_bytes))
    assert decide(more, history, THRESHOLDS)[0] is TrimLevel.IDLE


def test_a_trim_that_the_same_load_undid_is_not_repeated_until_something_changed():
    full = seen(room=NEARLY_FULL)
    history = trimmed(
        full, History(), left=Stats(allocated=GIB, reserved=GIB), level=TrimLevel.HARD
    )
    later = replace(full, now=full.now + 60, last_work=full.now + 60)
    assert decide(later, history, THRESHOLDS)[0] is None
    grown = replace(later, stats=cached(GIB))
    assert decide(grown, history, THRESHOLDS)[0] is TrimLevel.HARD
    others = replace(later, room=Room(free=800 * MIB, total=16 * GIB))
    assert decide(others, history, THRESHOLDS)[0] is TrimLevel.HARD
    calmer = replace(later, demand=GIB // 2 - 1)
    assert decide(calmer, history, THRESHOLDS)[0] is TrimLevel.HARD


def test_a_small_device_is_not_always_full():
    assert THRESHOLDS.low_water(Room(free=0, total=2 * GIB)) == 2 * GIB // 10
    assert THRESHOLDS.low_water(Room(free=0, total=16 * GIB)) == GIB
    assert THRESHOLDS.low_water(Room(free=0, total=100 * GIB)) == 3 * GIB
    assert THRESHOLDS.low_water(Room(free=0, total=0)) == 0
