"""Predicted bytes by hand, and the budget of a device at its bounds."""

from dataclasses import dataclass, field

import pytest

from farpoint_server.memory import budget, prediction
from farpoint_server.memory.allocator import Room, Stats
from farpoint_server.memory.budget import Budget
from farpoint_server.memory.oom import TooLarge
from farpoint_server.memory.prediction import Correction, Demand, UsageTracker, sample_bytes

MIB = 1 << 20
OBSERVED = prediction.OBSERVED_BYTES


def test_the_constants_are_what_they_were_measured_with():
    assert (prediction.ROUNDING, prediction.MARGIN) == (512, 1.25)
    assert prediction.POINT_TENSORS == (12, 4, 16)
    assert prediction.SAMPLE_TENSORS == (4, 4, 12)
    assert prediction.CLOUD_BYTES == 24
    assert (prediction.LEAST, prediction.MOST, prediction.OOM_FACTOR) == (0.25, 4.0, 1.5)
    assert (prediction.WEIGHT, budget.BATCH_SHARE) == (0.2, 0.5)
    assert (prediction.OBSERVED_BYTES, prediction.LOOK_EVERY_S) == (MIB, 0.1)
    assert budget.ROOM_AGE_S == 1.0


@pytest.mark.parametrize(
    ("points", "clouds", "samples", "rounded"),
    [
        (1, 1, 1, 7 * 512),
        (512, 64, 512, 512 * (12 + 4 + 16) + 512 * (4 + 4 + 12) + 64 * 24),
        (513, 1, 1, (12 + 1 + 4 + 1 + 16 + 1) * 512 + 4 * 512),
    ],
)
def test_each_tensor_is_rounded_up_by_itself(points, clouds, samples, rounded):
    assert sample_bytes(points, clouds, samples) == int(1.25 * rounded)


def test_the_first_observation_counts_whole_and_later_ones_by_their_weight():
    first = Correction().observe(1000, 500)
    assert first == Correction(0.5, 0.5, 1)
    second = first.observe(1000, 1500)
    assert second.factor == pytest.approx(0.5 + 0.2 * (1.5 - 0.5))
    assert second.error == pytest.approx(0.5 + 0.2 * (abs(1500 / 500 - 1) - 0.5))
    assert second.observations == 2


@pytest.mark.parametrize(("observed", "factor"), [(1, 0.25), (250, 0.25), (4000, 4.0), (9000, 4.0)])
def test_a_correction_stays_within_a_quarter_and_four(observed, factor):
    assert Correction().observe(1000, observed).factor == factor


def test_after_running_out_predictions_are_half_as_much_again():
    assert Correction().after_oom().factor == 1.5
    assert Correction(3.0).after_oom().factor == 4.0
    assert Correction(2.0).apply(100) == 200
    assert Correction(2.0).optimistic(100) == 100
    assert Correction(0.5).optimistic(100) == 50


def test_demand_decays_from_when_it_was_seen():
    demand = Demand(half_life_s=10.0).observe(1000, now=100.0)
    assert [demand.now(now) for now in (100.0, 110.0, 120.0)] == [1000, 500, 250]
    assert demand.at == 100.0
    assert demand.observe(1, now=110.0).at == 110.0
    assert Demand().half_life_s == 300.0


@dataclass
class Device:
    """An allocator of plain numbers that counts the looks at it."""

    stats_now: Stats = field(default_factory=Stats)
    room_now: Room = field(default_factory=lambda: Room(900 * MIB, 1000 * MIB))
    used: int | None = None
    looks: int = 0
    name: str = "plain:0"

    def stats(self) -> Stats:
        return self.stats_now

    def room(self) -> Room:
        self.looks += 1
        return self.room_now

    def begin_peak(self) -> None:
        self.looks += 1

    def peak(self) -> int | None:
        return self.used


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def budget_of(
    device: Device, clock: Clock, limit: int | None = None, reserve: int = 0, bounded: bool = True
) -> Budget:
    usage = UsageTracker(device, clock)
    return Budget(device, usage, limit, reserve, bounded=bounded, clock=clock)


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
    budget = budget_of(device, Clock(), limit and limit * MIB, reserve * MIB)
    budget.check(capacity * MIB)
    with pytest.raises(TooLarge, match=rf"plain:0, which can give {capacity * MIB} at most"):
        budget.check(capacity * MIB + 1)
    budget_of(device, Clock(), limit and limit * MIB, reserve * MIB, bounded=False).check(1 << 60)


def test_the_room_is_looked_at_again_when_it_is_a_second_old():
    device, clock = Device(), Clock()
    budget = budget_of(device, clock)
    device.room_now = Room(500 * MIB, 1000 * MIB)
    clock.now += 0.9
    assert budget.room(Stats()).free == 900 * MIB
    clock.now += 0.1
    assert budget.room(Stats()).free == 500 * MIB
    device.room_now = Room(400 * MIB, 1000 * MIB)
    assert budget.room(Stats()).free == 500 * MIB
    assert budget.room(Stats(), max_age_s=0).free == 400 * MIB


def test_between_looks_what_this_process_takes_and_gives_back_is_counted():
    device = Device(Stats(reserved=50 * MIB))
    budget = budget_of(device, Clock())
    assert budget.room(Stats(reserved=80 * MIB)).free == 870 * MIB
    assert budget.room(Stats(reserved=20 * MIB)).free == 930 * MIB
    assert budget.room(Stats(reserved=2000 * MIB)).free == 0
    device.stats_now = Stats(reserved=500 * MIB)
    budget = budget_of(device, Clock())
    assert budget.room(Stats()).free == 1000 * MIB


def test_a_batch_may_take_half_of_what_is_there():
    device = Device(Stats(allocated=100 * MIB, reserved=150 * MIB, releasable=40 * MIB))
    assert budget_of(device, Clock()).batch_bytes() == 0.5 * 900 * MIB
    assert budget_of(device, Clock(), limit=300 * MIB).batch_bytes() == 0.5 * 200 * MIB
    assert budget_of(device, Clock(), reserve=200 * MIB).batch_bytes() == 0.5 * 740 * MIB
    assert budget_of(device, Clock(), limit=50 * MIB).batch_bytes() == 0


@pytest.mark.parametrize(
    ("needed", "fits"),
    [(450 * MIB, True), (450 * MIB + 1, False)],
)
def test_a_second_batch_needs_room_beside_the_first(needed, fits):
    assert budget_of(Device(), Clock()).has_room_beside(needed) == fits
    assert budget_of(Device(), Clock(), bounded=False).has_room_beside(1 << 60)


def test_a_batch_that_needs_both_cache_and_free_room_trims_first():
    trims = []
    device = Device(
        Stats(allocated=100 * MIB, reserved=600 * MIB, releasable=500 * MIB),
        Room(400 * MIB, 1000 * MIB),
    )

    def trim() -> None:
        trims.append(1)
        device.stats_now = Stats(allocated=100 * MIB, reserved=100 * MIB)
        device.room_now = Room(900 * MIB, 1000 * MIB)

    budget = budget_of(device, Clock())
    assert budget.may_begin(500 * MIB, alone=False, trim=trim)  # the cache holds it
    assert not trims
    assert budget.may_begin(500 * MIB + 1, alone=False, trim=trim)
    assert len(trims) == 1
    assert budget.may_begin(900 * MIB, alone=False, trim=trim)
    assert not budget.may_begin(900 * MIB + 1, alone=False, trim=trim)
    assert len(trims) == 1  # nothing could be released


@pytest.mark.parametrize(("alone", "begins"), [(True, True), (False, False)])
def test_a_single_request_is_not_refused_by_a_correction(alone, begins):
    budget = budget_of(Device(), Clock())
    budget._usage.corrections["sample"] = Correction(2.0)
    assert budget.may_begin(500 * MIB, alone=alone, trim=lambda: None) == begins


def test_small_batches_and_unbounded_devices_begin_at_once():
    full = Device(room_now=Room(0, 0))
    never = pytest.fail
    assert budget_of(full, Clock()).may_begin(OBSERVED - 1, alone=False, trim=never)
    assert not budget_of(full, Clock()).may_begin(OBSERVED, alone=False, trim=never)
    unbounded = budget_of(full, Clock(), bounded=False)
    assert unbounded.may_begin(1 << 40, alone=False, trim=never)


def test_a_batch_of_the_least_size_is_watched_and_a_lack_of_a_peak_is_no_observation():
    device, clock = Device(used=None), Clock()
    tracker = UsageTracker(device, clock)
    tracker.watch(lambda: None, OBSERVED)
    assert (device.looks, tracker.demand, tracker.correction.observations) == (1, OBSERVED, 0)
    clock.now += 0.09
    tracker.watch(lambda: None, OBSERVED)
    assert device.looks == 1
    clock.now += 0.02
    tracker.watch(lambda: None, OBSERVED)
    assert device.looks == 2
    device.used = 3 * OBSERVED
    clock.now += 0.2
    tracker.watch(lambda: None, OBSERVED)
    assert (tracker.correction.factor, tracker.demand) == (3.0, 3 * OBSERVED)
    tracker.ran_out()
    assert tracker.correction.factor == 4.0


def scarce() -> Device:
    """500 MiB of it are cached and 400 MiB free, so that 600 MiB need both."""
    stats = Stats(allocated=100 * MIB, reserved=600 * MIB, releasable=500 * MIB)
    return Device(stats, Room(400 * MIB, 1000 * MIB))


def test_before_a_trim_the_device_is_looked_at_again():
    device = scarce()
    budget = budget_of(device, Clock())
    device.room_now = Room(800 * MIB, 1000 * MIB)  # others have left
    assert budget.may_begin(600 * MIB, alone=False, trim=pytest.fail)


def test_after_a_trim_the_device_is_looked_at_again():
    device = scarce()

    def trim() -> None:
        device.stats_now = Stats(allocated=100 * MIB, reserved=100 * MIB)
        device.room_now = Room(550 * MIB, 1000 * MIB)  # others took what came back

    budget = budget_of(device, Clock())
    assert not budget.may_begin(600 * MIB, alone=False, trim=trim)
