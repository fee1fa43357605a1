"""Waiting work: what shares a batch, deficit round robin among callers, and predicted times."""

from collections import Counter

import pytest
from tests.support.compute.scheduling import MS, job

from farpoint_server.compute.cost import CostModel
from farpoint_server.compute.queue import QUANTUM_NS, Job, JobQueue, RoundRobin


def add(queue: JobQueue, *jobs: Job) -> list[Job]:
    """Adds jobs, each a second older than the next."""
    for second, one in enumerate(jobs):
        one.accepted = float(second)
        queue.add(one)
    return list(jobs)


def exactly(cost_ns: int) -> Job:
    """A job of so many nanoseconds."""
    made = job("", 0)
    made.cost_ns = cost_ns
    return made


def alone(caller: str, cost_ms: float, points: int = 1) -> Job:
    """A job of a kind that shares no launch."""
    made = job(caller, cost_ms, points)
    made.work.batch_key = None
    return made


async def test_a_batch_is_as_large_as_its_bound_and_no_larger():
    queue = JobQueue(100)
    a, b, c = add(queue, job("", 1, 50), job("", 1, 50), job("", 1, 1))
    assert queue.take_batch() == [a, b]
    assert (queue.count, queue.points) == (1, 1)
    assert queue.take_batch() == [c]
    assert (queue.count, queue.points, queue.take_batch()) == (0, 0, [])


async def test_a_batch_lasts_as_long_as_its_bound_and_no_longer():
    queue = JobQueue(100, 10 * MS)
    a, b, c = add(queue, job("", 4), job("", 6), exactly(1))
    assert [queue.take_batch(), queue.take_batch()] == [[a, b], [c]]
    a, b, c = add(queue, job("", 4), job("", 5), exactly(MS + 1))
    assert [queue.take_batch(), queue.take_batch()] == [[a, b], [c]]


async def test_few_points_share_a_batch_however_long_it_lasts():
    queue = JobQueue(100, 10 * MS)
    a, b, c = add(queue, *(job("", 8, points=4) for _ in range(3)))
    for each in (a, b, c):
        each.work.few_points = 8
    assert [queue.take_batch(), queue.take_batch()] == [[a, b], [c]]


@pytest.mark.parametrize(
    ("costs_ms", "is_of_model", "is_small"),
    [
        ((1.3, 1.3, 1.3), True, True),
        ((1.3,) * 8, True, False),
        ((1.4,), True, False),
        ((1,), False, False),
    ],
    ids=["part of a batch", "a batch", "a longer request", "no model"],
)
async def test_small_is_a_part_of_a_batch_of_small_requests_to_a_model(
    costs_ms, is_of_model, is_small
):
    queue = JobQueue(100, 10 * MS)
    for each in add(queue, *(job("", cost_ms) for cost_ms in costs_ms)):
        each.work.uses_openmp = is_of_model
    assert queue.is_small is is_small


async def test_the_older_line_begins_or_the_shared_one_at_the_same_age():
    queue = JobQueue(100)
    large, small = add(queue, job("", 1, 99), job("", 1, 1))
    assert [queue.take_batch(), queue.take_batch()] == [[large], [small]]
    queue = JobQueue(100)
    large, small = add(queue, job("", 1, 99), job("", 1, 1))
    large.accepted = small.accepted
    assert [queue.take_batch(), queue.take_batch()] == [[small], [large]]


async def test_a_job_whose_caller_left_takes_no_room_in_a_batch():
    queue = JobQueue(100)
    left, a, b = add(queue, job("", 1, 40), job("", 1, 50), job("", 1, 50))
    left.answer.cancel()
    assert queue.take_batch() == [a, b]
    assert (queue.count, queue.points) == (0, 0)


async def test_ahead_of_a_job_is_its_callers_and_as_much_of_each_other():
    queue = JobQueue(100)
    assert queue.ahead_ns(job("a", 7)) == 7 * MS
    add(queue, job("b", 100), job("c", 2), alone("d", 1000))
    # Of b as much as its own, of c all: not more than both have, nor than twice its own.
    assert queue.ahead_ns(job("a", 7)) == 21 * MS
    assert queue.ahead_ns(job("a", 90)) == 192 * MS
    add(queue, job("a", 3))
    assert queue.ahead_ns(job("a", 7)) == 30 * MS
    assert queue.ahead_ns(job("b", 7)) == 112 * MS
    assert queue.ahead_ns(alone("d", 5)) == 1005 * MS
    queue = JobQueue(100)
    add(queue, exactly(1), job("b", 100))
    assert queue.ahead_ns(job("", 7)) == 14 * MS + 2


QUANTUM_MS = QUANTUM_NS / MS


@pytest.fixture
async def line():
    return RoundRobin()


def add_to(line, caller, *costs):
    jobs = [job(caller, cost) for cost in costs]
    for one in jobs:
        line.add(one)
    return jobs


def take(line, count=None):
    """Callers of the next jobs, all if None, in order."""
    count = line.count if count is None else count
    return "".join(line.take().caller for _ in range(count))


@pytest.mark.parametrize(
    ("a", "b", "order"),
    [
        ([1] * 6, [1] * 3, "abababaaa"),
        ([0.5] * 4, [1] * 2, "aabaab"),
        # 0.6 of a quantum a job: one in the first turn, with 0.4 left over; two in the second.
        ([0.6] * 5, [1] * 3, "abaabaab"),
    ],
)
async def test_callers_take_turns_that_their_quanta_pay_for(line, a, b, order):
    add_to(line, "a", *(cost * QUANTUM_MS for cost in a))
    add_to(line, "b", *(cost * QUANTUM_MS for cost in b))
    assert take(line) == order


async def test_callers_with_long_and_short_jobs_get_the_same_time(line):
    add_to(line, "a", *[40 * QUANTUM_MS] * 3)
    add_to(line, "b", *[QUANTUM_MS / 4] * 400)
    spent = Counter()
    while line.callers == 2:
        one = line.take()
        spent[one.caller] += one.cost_ns
        assert abs(spent["a"] - spent["b"]) <= 41 * QUANTUM_NS


async def test_a_caller_who_leaves_saves_nothing_up(line):
    left = add_to(line, "a", QUANTUM_MS * 50)
    add_to(line, "b", *[QUANTUM_MS] * 4)
    assert take(line, 2) == "bb"
    line.discard(left[0])
    add_to(line, "a", *[QUANTUM_MS] * 3)
    assert take(line) == "ababa"


async def test_a_job_whose_caller_left_costs_nothing(line):
    dead, _ = add_to(line, "a", QUANTUM_MS, QUANTUM_MS)
    add_to(line, "b", QUANTUM_MS)
    dead.answer.cancel()
    assert take(line) == "aab"


async def test_a_job_of_hours_is_found_at_once(line):
    """Its rounds are counted, not walked through."""
    for caller in range(200):
        line.add(job(str(caller), 1e9 + caller))
    assert line.take().caller == "0"


async def test_a_caller_that_was_alone_owes_nothing(line):
    add_to(line, "a", *[1000 * QUANTUM_MS, QUANTUM_MS, QUANTUM_MS])
    line.take()
    add_to(line, "b", QUANTUM_MS, QUANTUM_MS)
    assert take(line) in ("abab", "baba")


class Work:
    def __init__(self, cost_ms: float, kind: str = "sample") -> None:
        self._cost_ns, self.cost_key = int(cost_ms * MS), kind

    def cost_ns(self, device_type: str) -> int:
        assert device_type == "cpu"
        return self._cost_ns


def test_a_kind_that_takes_longer_is_predicted_to_and_no_other_kind():
    costs = CostModel()
    assert costs.predict_ns(Work(11)) == 11 * MS
    costs.observe([Work(10), Work(12)], 66 * MS)
    assert costs.predict_ns(Work(11)) == 33 * MS
    assert costs.predict_ns(Work(11, "encode a")) == 11 * MS


def test_large_work_teaches_nothing_about_small_work():
    costs = CostModel()
    costs.observe([Work(40)], 800 * MS)
    assert costs.predict_ns(Work(3)) == 3 * MS
    costs.observe([Work(3), Work(40)], 43 * MS)
    assert costs.predict_ns(Work(3)) == 3 * MS
    assert 200 * MS < costs.predict_ns(Work(40)) < 800 * MS
    costs.observe([Work(6)], 12 * MS)  # of about the size of 3
    assert costs.predict_ns(Work(3)) > 3 * MS


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


async def test_a_caller_whose_work_took_longer_than_predicted_pays_for_it(line):
    add_to(line, "a", *[QUANTUM_MS] * 4)
    add_to(line, "b", *[QUANTUM_MS] * 4)
    assert line.take().caller == "a"
    line.charge("a", 2 * QUANTUM_MS * MS)
    assert take(line) == "bbbabaa"
    add_to(line, "a", QUANTUM_MS)
    line.charge("a", 1000 * QUANTUM_MS * MS)  # alone it owes nothing
    add_to(line, "b", QUANTUM_MS)
    assert sorted(take(line)) == ["a", "b"]
