"""Each threshold of the policy at its very bound, and the defaults that docs/memory.md states."""

from dataclasses import asdict, replace

import pytest

from farpoint_server.memory.allocator import Room, Stats
from farpoint_server.memory.policy import (
    CPU_THRESHOLDS,
    CUDA_THRESHOLDS,
    GROWTH,
    OOMS,
    OOMS_S,
    SHRINKAGE,
    History,
    Mark,
    OomTracker,
    Signals,
    Thresholds,
    TrimLevel,
    decide,
    trimmed,
)

MIB, GIB = 1 << 20, 1 << 30
# Round numbers, so that each bound can be met exactly.
ROUND = Thresholds(
    hard_bytes=100,
    hard_share=0.0,
    soft_bytes=1000,
    soft_share=0.0,
    soft_demand=2.0,
    soft_s=2.0,
    fragmentation=0.25,
    idle_s=30.0,
    interval_s=10.0,
    min_trim_bytes=64,
)


def test_the_defaults_are_those_of_the_documentation():
    assert asdict(CUDA_THRESHOLDS) == {
        "hard_bytes": GIB,
        "hard_share": 0.03,
        "soft_bytes": GIB,
        "soft_share": 0.1,
        "soft_demand": 2.0,
        "soft_s": 2.0,
        "fragmentation": 0.3,
        "idle_s": 30.0,
        "interval_s": 10.0,
        "min_trim_bytes": 64 * MIB,
    }
    changed = {"idle_s": 2.0, "interval_s": 2.0, "min_trim_bytes": 8 * MIB}
    assert asdict(CPU_THRESHOLDS) == asdict(CUDA_THRESHOLDS) | changed
    assert (GROWTH, SHRINKAGE, OOMS, OOMS_S) == (1.25, 0.5, 3, 60.0)


def seen(**changes: object) -> Signals:
    """A busy device with much free, and 200 bytes cached, all of them releasable."""
    calm = Signals(
        now=100.0,
        stats=Stats(allocated=800, reserved=1000, releasable=200),
        room=Room(free=5000, total=10_000),
        demand=800,
        waiting=0,
        last_work=100.0,
    )
    return replace(calm, **changes)


def level(signals: Signals, **history: object) -> TrimLevel | None:
    return decide(signals, History(**history), ROUND)[0]


@pytest.mark.parametrize(("free", "expected"), [(99, TrimLevel.HARD), (100, None)])
def test_a_device_is_full_below_its_low_water(free, expected):
    assert level(seen(room=Room(free, 10_000))) is expected


@pytest.mark.parametrize(("releasable", "expected"), [(63, None), (64, TrimLevel.HARD)])
def test_a_trim_must_be_worth_it(releasable, expected):
    full = seen(room=Room(0, 10_000), stats=Stats(800, 1000, releasable))
    assert level(full) is expected
    more = replace(full, stats=Stats(800, 1000, releasable + 10))
    assert level(more, residue=10) is expected


@pytest.mark.parametrize(("idle", "expected"), [(1600, None), (1601, TrimLevel.SOFT)])
def test_too_much_is_cached_above_the_high_water(idle, expected):
    assert level(seen(stats=Stats(800, 800 + idle, 200)), soft_since=0.0) is expected


@pytest.mark.parametrize(
    ("demand", "total", "expected"), [(400, 0, 1000), (501, 0, 1002), (400, 20_000, 2000)]
)
def test_the_high_water_is_the_largest_of_three(demand, total, expected):
    thresholds = replace(ROUND, soft_share=0.1)
    assert thresholds.high_water(demand, Room(0, total)) == expected


@pytest.mark.parametrize(("since", "expected"), [(98.1, None), (98.0, TrimLevel.SOFT)])
def test_it_must_have_been_cached_for_its_time(since, expected):
    assert level(seen(stats=Stats(800, 3000, 200)), soft_since=since) is expected


def test_the_time_begins_when_too_much_is_cached():
    much, little = seen(stats=Stats(800, 3000, 200)), seen()
    assert decide(much, History(), ROUND)[1].soft_since == 100.0
    assert decide(much, History(soft_since=99.5), ROUND)[1].soft_since == 99.5
    assert decide(little, History(soft_since=99.5), ROUND)[1].soft_since is None


@pytest.mark.parametrize(
    ("split", "reserved", "expected"),
    [
        (501, 2000, TrimLevel.FRAGMENTATION),
        (500, 2000, None),
        (501, 1600, None),
        (501, 1601, TrimLevel.FRAGMENTATION),
    ],
)
def test_fragmentation_at_its_two_bounds(split, reserved, expected):
    stats = Stats(allocated=800, reserved=reserved, releasable=200, split=split)
    assert level(seen(stats=stats)) is expected
    assert level(seen(stats=stats, waiting=1)) is None


@pytest.mark.parametrize(("ended", "expected"), [(70.0, TrimLevel.IDLE), (70.1, None)])
def test_a_device_is_idle_after_its_time(ended, expected):
    assert level(seen(last_work=ended)) is expected


@pytest.mark.parametrize(
    ("releasable", "host", "residue", "expected"),
    [
        (32, 32, 0, TrimLevel.IDLE),
        (32, 31, 0, None),
        (42, 32, 10, TrimLevel.IDLE),
        (42, 31, 10, None),
    ],
)
def test_an_idle_trim_counts_host_memory(releasable, host, residue, expected):
    stats = Stats(800, 1000, releasable, host_reserved=host, host_releasable=host)
    assert level(seen(stats=stats, last_work=0.0), residue=residue) is expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, None),
        ({"stats": Stats(800, 1250, 200)}, None),
        ({"stats": Stats(800, 1251, 200)}, TrimLevel.HARD),
        ({"demand": 400}, None),
        ({"demand": 399}, TrimLevel.HARD),
    ],
)
def test_a_trim_that_load_undid_waits_for_a_change(changes, expected):
    full = seen(room=Room(50, 10_000), **changes)
    mark = Mark(reserved=1000, demand=800, available=full.available)
    assert level(full, mark=mark) is expected


@pytest.mark.parametrize(("less", "expected"), [(64, None), (65, TrimLevel.HARD)])
def test_what_others_took_is_a_change(less, expected):
    full = seen(room=Room(50, 10_000))
    assert full.available == 1050
    assert level(full, mark=Mark(1000, 800, full.available + less)) is expected


@pytest.mark.parametrize(
    ("left", "residue"),
    [
        (Stats(800, 800, 0), 0),
        (Stats(800, 1000, 200), 200),
        (Stats(800, 900, 100), 100),
        # 50 of what came back were freed by others during the trim.
        (Stats(750, 900, 150), 100),
        # More came back than was counted as releasable.
        (Stats(700, 700, 30), 0),
    ],
)
def test_what_a_trim_left_is_what_it_could_not_release(left, residue):
    history = trimmed(seen(), History(), left, TrimLevel.IDLE)
    assert (history.residue, history.last_trim) == (residue, 100.0)


@pytest.mark.parametrize(
    ("reason", "sets_mark"),
    [
        (None, False),
        (TrimLevel.IDLE, False),
        (TrimLevel.HARD, True),
        (TrimLevel.SOFT, True),
        (TrimLevel.FRAGMENTATION, True),
    ],
)
def test_only_a_trim_for_load_says_what_load_needs(reason, sets_mark):
    former = Mark(1, 2, 3)
    history = trimmed(seen(), History(mark=former), Stats(800, 800, 0), reason)
    assert history.mark == (Mark(1000, 800, 6000) if sets_mark else former)


@pytest.mark.parametrize(
    ("times", "unhealthy"),
    [
        ((0.0, 1.0), False),
        ((0.0, 1.0, 59.9), True),
        ((0.0, 1.0, 60.0), False),
        ((0.0, 50.0, 61.0, 109.9), True),
        ((0.0, 1.0, 2.0, 500.0), True),
    ],
)
def test_three_times_out_of_memory_within_a_minute_are_unhealthy(times, unhealthy):
    tracker = OomTracker()
    for time in times:
        tracker.add(time)
    assert (tracker.is_unhealthy, tracker.count) == (unhealthy, len(times))
    tracker.after_trim(has_room=False)
    assert tracker.is_unhealthy == unhealthy
    tracker.after_trim(has_room=True)
    assert not tracker.is_unhealthy
