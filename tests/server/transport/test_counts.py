"""Counts of callers over all front ends of a server, and the limits that they make whole."""

import pytest

from farpoint_server import request_context
from farpoint_server.errors import CallerShareError, OverloadedError, TooManyCallsError
from farpoint_server.transport.admission import Admission
from farpoint_server.transport.counts import Count, Counts
from farpoint_server.transport.limits import CallLimits

SAMPLE = "farpoint.v1.SamplingService/Sample"


@pytest.fixture
def both():
    """The counts of two front ends of one server, and the supervisor's."""
    all_of_them = Counts.create(2)
    return Counts(all_of_them.descriptor, 0), Counts(all_of_them.descriptor, 1), all_of_them


def test_each_front_end_sees_the_sum_and_takes_back_its_own(both):
    first, second, _ = both
    first.add("ada", Count.POINTS, 5)
    second.add("ada", Count.POINTS, 2)
    second.add("bob", Count.POINTS, 1)
    second.add("bob", Count.BYTES, 9)
    for counts in both:
        assert (counts.total(Count.POINTS), counts.total(Count.BYTES)) == (8, 9)
        held = [counts.held(caller, Count.POINTS) for caller in ("ada", "bob", "cy")]
        assert held == [7, 1, 0]
        assert (counts.callers(Count.POINTS), counts.callers(Count.BYTES)) == (2, 1)
    first.add("ada", Count.POINTS, -5)
    assert (second.held("ada", Count.POINTS), second.total(Count.POINTS)) == (2, 3)


def test_what_a_front_end_held_that_ends_is_taken_back(both):
    first, second, supervisor = both
    first.add("ada", Count.POINTS, 5)
    second.add("ada", Count.POINTS, 2)
    supervisor.clear(0)
    assert (second.held("ada", Count.POINTS), second.total(Count.POINTS)) == (2, 2)
    first.add("ada", Count.POINTS, 1)  # its replacement
    assert second.held("ada", Count.POINTS) == 3


def admissions(both):
    return [
        Admission(max_points=10, max_bytes=100, retry_ms=1, caller_share=0.5, counts=counts)
        for counts in both[:2]
    ]


def test_points_and_bytes_in_flight_are_those_of_the_server(both):
    first, second = admissions(both)
    first.add("ada", 8, 10)
    with pytest.raises(OverloadedError, match="holds 8 points of at most 10"):
        second.add("ada", 3, 10)
    with pytest.raises(OverloadedError, match="holds 10 bytes of at most 100"):
        second.add("ada", 1, 91)
    first.remove("ada", 8, 10)
    second.add("ada", 10, 100)


def test_a_caller_has_one_share_over_all_front_ends(both):
    first, second = admissions(both)
    first.add("ada", 4, 10)
    second.add("bob", 1, 10)
    with pytest.raises(CallerShareError, match="4 points of its share of 5"):
        second.add("ada", 2, 10)
    second.add("ada", 1, 10)


def test_a_caller_that_another_front_end_shut_out_has_room_made_for_it(both):
    first, second = admissions(both)
    first.add("ada", 6, 10)
    with pytest.raises(OverloadedError):
        second.add("bob", 5, 10)
    with pytest.raises(CallerShareError):
        first.add("ada", 1, 10)


def test_open_calls_of_a_caller_are_those_of_the_server(both):
    slots = [CallLimits(4, 3, 1, counts).of(SAMPLE) for counts in both[:2]]
    for at in (0, 1, 1):
        slots[at].enter("ada")
    for each in slots:
        with pytest.raises(TooManyCallsError, match="3 calls open of at most 3"):
            each.enter("ada")
    slots[0].enter("bob")
    for each in slots:
        with pytest.raises(TooManyCallsError, match="all 4 calls"):
            each.enter("cy")
    slots[1].leave("ada")
    slots[0].enter("cy")


def test_names_of_any_length_are_counted_and_only_by_their_own(both):
    request_context.caller.set("")
    first, second, _ = both
    names = [f"token:{'x' * length}" for length in range(300)]
    for name in names:
        first.add(name, Count.CHECKS, 1)
    held = [second.held(name, Count.CHECKS) for name in names]
    assert sum(held) >= 300
    assert held.count(1) > 290  # two in 65,536 places may have one in common
