"""Deficit round robin: who is next, what it pays, and that nobody starves or saves up."""

import random
from collections import Counter

import pytest
from tests.support.scheduling import MS, job

from farpoint_server.scheduling.queue import QUANTUM_NS, RoundRobin

QUANTUM_MS = QUANTUM_NS / MS


@pytest.fixture
async def line():
    return RoundRobin()


def add(line, caller, *costs):
    jobs = [job(caller, cost) for cost in costs]
    for one in jobs:
        line.add(one)
    return jobs


def take(line, count=None):
    """Callers of the next jobs, all if None, in order."""
    count = line.count if count is None else count
    return "".join(line.take().caller for _ in range(count))


async def test_callers_take_turns_whoever_came_first_and_with_however_many(line):
    add(line, "a", *[QUANTUM_MS] * 6)
    add(line, "b", *[QUANTUM_MS] * 3)
    assert take(line) == "abababaaa"


async def test_a_turn_is_as_long_as_the_deficit_pays(line):
    add(line, "a", *[QUANTUM_MS / 2] * 4)
    add(line, "b", *[QUANTUM_MS] * 2)
    assert take(line) == "aabaab"


async def test_what_a_turn_leaves_over_is_kept_for_the_next(line):
    """0.6 of a quantum a job: one in the first turn, with 0.4 over; two in the second."""
    add(line, "a", *[0.6 * QUANTUM_MS] * 5)
    add(line, "b", *[QUANTUM_MS] * 3)
    assert take(line) == "abaabaab"


async def test_callers_with_long_and_short_jobs_get_the_same_time(line):
    add(line, "a", *[40 * QUANTUM_MS] * 3)
    add(line, "b", *[QUANTUM_MS / 4] * 400)
    spent = Counter()
    while line.callers == 2:
        one = line.take()
        spent[one.caller] += one.cost_ns
        assert abs(spent["a"] - spent["b"]) <= 41 * QUANTUM_NS


async def test_nobody_waits_for_more_of_another_than_it_has_itself_and_one_job():
    """Of random jobs and callers, in whatever order they come."""
    lots = random.Random(3)
    for _ in range(30):
        line = RoundRobin()
        for _ in range(60):
            add(line, lots.choice("abcd"), lots.choice((0.01, 1, 9, 15, 300, 4000)))
        queued = {caller: line.cost_of(caller) for caller in "abcd"}
        longest = max(one.cost_ns for one in line)
        spent = Counter()
        while line.count:
            one = line.take()
            spent[one.caller] += one.cost_ns
            waiting = [c for c in "abcd" if spent[c] < queued[c]]
            assert all(spent[one.caller] <= spent[c] + 2 * longest + QUANTUM_NS for c in waiting)
        assert spent == queued


async def test_a_caller_who_leaves_saves_nothing_up(line):
    left = add(line, "a", QUANTUM_MS * 50)
    add(line, "b", *[QUANTUM_MS] * 4)
    assert take(line, 2) == "bb"
    line.discard(left[0])
    add(line, "a", *[QUANTUM_MS] * 3)
    assert take(line) == "ababa"


async def test_a_discarded_job_costs_its_caller_nothing(line):
    first, _ = add(line, "a", QUANTUM_MS, QUANTUM_MS)
    add(line, "b", QUANTUM_MS)
    line.discard(first)
    line.discard(first)
    assert (line.count, line.cost_ns) == (2, 2 * QUANTUM_NS)
    assert take(line) == "ab"


async def test_a_job_that_nobody_waits_for_any_more_costs_its_caller_nothing(line):
    dead, _ = add(line, "a", QUANTUM_MS, QUANTUM_MS)
    add(line, "b", QUANTUM_MS)
    dead.answer.cancel()
    assert take(line) == "aab"


async def test_a_job_of_hours_is_found_at_once(line):
    """Its rounds are counted, not walked through."""
    for caller in range(200):
        line.add(job(str(caller), 1e9 + caller))
    assert line.take().caller == "0"


async def test_who_was_alone_owes_nothing_when_another_comes(line):
    add(line, "a", *[1000 * QUANTUM_MS, QUANTUM_MS, QUANTUM_MS])
    line.take()
    add(line, "b", QUANTUM_MS, QUANTUM_MS)
    assert take(line) in ("abab", "baba")


async def test_to_look_does_not_change_the_order(line):
    add(line, "a", 25, 5, 5)
    add(line, "b", 9, 9, 9)
    seen = []
    while line.count:
        expected = line.peek()
        assert line.peek() is expected
        assert line.take() is expected
        seen.append(expected.caller)
    assert Counter(seen) == {"a": 3, "b": 3}
