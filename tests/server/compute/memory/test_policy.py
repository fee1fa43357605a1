"""Trims at the thresholds of the policy, and memory that a device can give to a batch."""

import pytest
import torch
from tests.support.memory.simulation import MIB, Clock, FakeAllocator

from farpoint_server.compute.memory.gate import Gate
from farpoint_server.compute.memory.manager import manager_of
from farpoint_server.compute.memory.oom import Budget, TooLarge
from farpoint_server.compute.memory.policy import (
    OomTracker,
    Thresholds,
    TrimPolicy,
)
from farpoint_server.compute.memory.snapshot import Headroom, Reason, Stats

GIB = 1 << 30
# Round numbers, so that each bound can be met exactly.
ROUND = Thresholds(hard_bytes=100, hard_share=0.0, idle_s=30.0, interval_s=10.0, min_trim_bytes=64)
FULL, FREE = Headroom(50, 10_000), Headroom(5000, 10_000)
CACHED = Stats(allocated=800, reserved=1000, releasable=200)


def decide(
    policy: TrimPolicy,
    now: float = 100.0,
    stats: Stats = CACHED,
    headroom: Headroom = FREE,
    waiting: int = 0,
    idle_for: float = 0.0,
) -> Reason | None:
    return policy.decide(now, stats, headroom, waiting=waiting, last_work=now - idle_for)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, None),
        ({"headroom": Headroom(99, 10_000)}, Reason.HARD),
        ({"headroom": Headroom(99, 10_000), "waiting": 9}, Reason.HARD),
        ({"headroom": Headroom(100, 10_000)}, None),
        ({"headroom": FULL, "stats": Stats(800, 1000, 64)}, Reason.HARD),
        ({"headroom": FULL, "stats": Stats(800, 1000, 63)}, None),
        ({"idle_for": 30.0}, Reason.IDLE),
        ({"idle_for": 29.9}, None),
        ({"idle_for": 99.0, "waiting": 1}, None),
        ({"idle_for": 99.0, "stats": Stats(800, 1000, 32, host_releasable=32)}, Reason.IDLE),
        ({"idle_for": 99.0, "stats": Stats(800, 1000, 32, host_releasable=31)}, None),
        ({"headroom": FULL, "stats": Stats(host_releasable=GIB)}, None),
    ],
)
def test_a_level_fires_when_its_condition_holds(given, expected):
    assert decide(TrimPolicy(ROUND), **given) is expected


@pytest.mark.parametrize(
    ("total", "low_water"),
    [(0, 0), (2 * GIB, 2 * GIB // 10), (16 * GIB, GIB), (100 * GIB, 3 * GIB)],
)
def test_a_small_device_is_not_always_full(total, low_water):
    assert Thresholds().low_water(Headroom(0, total)) == low_water


def test_no_level_fires_within_the_interval_of_any_trim():
    policy = TrimPolicy(ROUND)
    policy.trimmed(100.0, Reason.REQUEST, CACHED, Stats(800, 800), FULL)
    assert decide(policy, 109.9, idle_for=99) is None
    assert decide(policy, 110.0, idle_for=99) is Reason.IDLE


@pytest.mark.parametrize(
    ("left", "kept"),
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
def test_what_a_trim_could_not_release_is_not_tried_again(left, kept):
    policy = TrimPolicy(ROUND)
    policy.trimmed(100.0, Reason.IDLE, CACHED, left, FULL)
    for more, expected in ((63, None), (64, Reason.IDLE)):
        stats = Stats(800, 5000, kept + more)
        assert decide(policy, 200.0, stats, idle_for=99) is expected


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
    tracker.after_trim(has_headroom=False)
    assert tracker.is_unhealthy == unhealthy
    tracker.after_trim(has_headroom=True)
    assert not tracker.is_unhealthy


def device_of(others: int = 0, allocated: int = 0, cached: int = 0) -> FakeAllocator:
    """A device of 1000 MiB, of which so many MiB are held by others, in use and cached."""
    device = FakeAllocator(1000 * MIB, others * MIB)
    blocks = [device.allocate(size * MIB) for size in (allocated, cached) if size]
    if cached:
        device.free(blocks[-1])
    return device


def budget_of(
    device: FakeAllocator, clock: Clock | None = None, limit: int | None = None, reserve: int = 0
) -> Budget:
    return Budget(device, limit and limit * MIB, reserve * MIB, clock or Clock())


@pytest.mark.parametrize(
    ("limit", "reserve", "allocated", "capacity"),
    [
        (None, 0, 0, 1000),
        (None, 100, 0, 900),
        (500, 100, 0, 500),
        (950, 100, 0, 900),
        (500, 0, 200, 300),
        (500, 0, 600, 0),
    ],
)
def test_a_request_must_fit_what_the_device_can_give_at_best(limit, reserve, allocated, capacity):
    budget = budget_of(device_of(allocated=allocated), limit=limit, reserve=reserve)
    budget.check(capacity * MIB)
    with pytest.raises(TooLarge, match=rf"fake:0, which can give {capacity * MIB} at most"):
        budget.check(capacity * MIB + 1)


@pytest.mark.parametrize("limit", [None, 3])
def test_a_cpu_refuses_nothing_without_a_limit(limit):
    limit_mib = limit and limit << 10
    manager = manager_of(torch.device("cpu"), Gate(), limit_mib=limit_mib)
    assert manager.snapshot.limit == (limit and limit << 30)
    assert manager.bounded == (limit is not None)
    if limit is None:
        manager.check(1 << 60)
    else:
        manager.check(1 << 20)
        with pytest.raises(TooLarge):
            manager.check(limit << 30)


def test_memory_that_owners_hold_is_no_cache_for_a_batch_until_a_trim():
    """600 MiB are cached and 400 free: a batch of 500 fits the cache, if no graphs hold 150."""
    device, trims = device_of(cached=600), []
    budget = budget_of(device)
    slots = object(), object()
    assert budget.leaves_room(500 * MIB, without_flush=True)
    budget.aside.put(slots[0], 100 * MIB)
    budget.aside.put(slots[1], 50 * MIB)
    assert not budget.leaves_room(500 * MIB, without_flush=True)
    assert budget.may_begin(500 * MIB, lambda: (trims.append(1), device.trim()))
    assert trims == [1]


def test_owners_hold_an_eighth_of_the_memory():
    budget, slots = budget_of(device_of(), limit=800), (object(), object())
    budget.aside.put(slots[0], 60 * MIB)
    assert not budget.aside.is_full
    budget.aside.put(slots[1], 40 * MIB)
    assert (budget.aside.is_full, budget.aside.size) == (True, 100 * MIB)
    budget.aside.put(slots[0], 0)
    assert not budget.aside.is_full
