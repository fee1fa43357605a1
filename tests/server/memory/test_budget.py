"""Memory that a device can give to a batch, at its bounds, by the operator's options."""

from dataclasses import dataclass, field

import pytest
import torch

from farpoint_server.memory.gate import Gate
from farpoint_server.memory.manager import manager_of
from farpoint_server.memory.oom import Budget, TooLarge
from farpoint_server.memory.policy import Options
from farpoint_server.memory.snapshot import Headroom, Stats

MIB = 1 << 20


@dataclass
class Device:
    """An allocator of plain numbers; `trim` does what the test says."""

    stats_now: Stats = field(default_factory=Stats)
    headroom_now: Headroom = field(default_factory=lambda: Headroom(900 * MIB, 1000 * MIB))
    name: str = "plain:0"
    trims: int = 0
    headroom_after: int = 900

    def stats(self) -> Stats:
        return self.stats_now

    def headroom(self) -> Headroom:
        return self.headroom_now

    def trim(self) -> None:
        self.trims += 1
        self.stats_now = Stats(allocated=100 * MIB, reserved=100 * MIB)
        self.headroom_now = Headroom(self.headroom_after * MIB, 1000 * MIB)


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def budget_of(
    device: Device, clock: Clock | None = None, limit: int | None = None, reserve: int = 0
) -> Budget:
    return Budget(device, limit and limit * MIB, reserve * MIB, clock or Clock())


def scarce(**changes: int) -> Device:
    """500 MiB are cached and 400 MiB free, so that more than 500 MiB need both."""
    stats = Stats(allocated=100 * MIB, reserved=600 * MIB, releasable=500 * MIB)
    return Device(stats, Headroom(400 * MIB, 1000 * MIB), **changes)


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
    device = Device(Stats(allocated=allocated * MIB, reserved=allocated * MIB))
    budget = budget_of(device, limit=limit, reserve=reserve)
    budget.check(capacity * MIB)
    with pytest.raises(TooLarge, match=rf"plain:0, which can give {capacity * MIB} at most"):
        budget.check(capacity * MIB + 1)


def test_the_room_is_looked_at_again_when_it_is_a_second_old():
    device, clock = Device(), Clock()
    budget = budget_of(device, clock)
    device.headroom_now = Headroom(500 * MIB, 1000 * MIB)
    clock.now += 0.9
    assert budget.headroom(Stats()).free == 900 * MIB
    clock.now += 0.1
    assert budget.headroom(Stats()).free == 500 * MIB
    device.headroom_now = Headroom(400 * MIB, 1000 * MIB)
    assert budget.headroom(Stats()).free == 500 * MIB
    assert budget.headroom(Stats(), max_age_s=0).free == 400 * MIB


@pytest.mark.parametrize(("reserved", "free"), [(80, 870), (20, 930), (2000, 0)])
def test_between_looks_what_this_process_takes_and_gives_back_is_counted(reserved, free):
    budget = budget_of(Device(Stats(reserved=50 * MIB)))
    assert budget.headroom(Stats(reserved=reserved * MIB)).free == free * MIB


@pytest.mark.parametrize(
    ("needed", "begins", "trims"),
    [(500 * MIB, True, 0), (500 * MIB + 1, True, 1), (900 * MIB, True, 1), (901 * MIB, False, 1)],
)
def test_a_batch_that_needs_both_cache_and_free_memory_trims_first(needed, begins, trims):
    device = scarce()
    assert budget_of(device).may_begin(needed, device.trim) == begins
    assert device.trims == trims


def test_the_device_is_looked_at_again_before_a_trim_and_after_it():
    device = scarce()
    budget = budget_of(device)
    device.headroom_now = Headroom(800 * MIB, 1000 * MIB)  # others have left
    assert budget.may_begin(600 * MIB, pytest.fail)
    device = scarce(headroom_after=550)  # others took what came back
    assert not budget_of(device).may_begin(600 * MIB, device.trim)


@pytest.mark.parametrize(
    ("limit", "sharers", "expected"), [(None, 1, None), (None, 3, None), (3, 1, 3), (3, 3, 1)]
)
def test_processes_that_share_a_cpu_divide_its_limit_and_refuse_nothing_without_one(
    limit, sharers, expected
):
    options = Options(limit_bytes=limit and limit << 30, reserve_bytes=1 << 50)
    manager = manager_of(torch.device("cpu"), options, Gate(), sharers=sharers)
    assert manager.snapshot.limit == (expected and expected << 30)
    assert manager.bounded == (limit is not None)
    if limit is None:
        manager.check(1 << 60)
    else:  # the reserve is a GPU's
        manager.check(1 << 20)
        with pytest.raises(TooLarge):
            manager.check(expected << 30)
