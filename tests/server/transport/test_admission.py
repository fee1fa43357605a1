"""Points and bytes inside, over all front ends, and responses that peers do not read."""

from contextlib import contextmanager

import pytest
from structlog.testing import capture_logs
from tests.support.rpc import CallContext

from farpoint_server import request_context
from farpoint_server.errors import (
    FULL_RETRY_MS,
    CallerShareError,
    OverloadedError,
    TooManyCallsError,
)
from farpoint_server.observability.metrics import reason_of
from farpoint_server.transport import outgoing
from farpoint_server.transport.admission import Admission
from farpoint_server.transport.counts import Count, Counts
from farpoint_server.transport.limits import CallLimits
from farpoint_server.transport.outgoing import Outgoing


def make(**bounds) -> Admission:
    return Admission(**{"max_points": 10, "max_bytes": 1000} | bounds)


@pytest.mark.parametrize(
    ("points", "size", "message"), [(4, 1, "no room for 4 more"), (1, 501, "no room for 501 more")]
)
def test_what_is_beyond_a_bound_is_refused_and_not_counted(points, size, message):
    admission = make()
    with admission.reserve(7, 500):
        with pytest.raises(OverloadedError, match=message) as caught:
            admission.reserve(points, size).__enter__()
        assert (admission.points, admission.bytes) == (7, 500)
    assert caught.value.retry_ms == FULL_RETRY_MS
    assert (admission.points, admission.bytes) == (0, 0)


@pytest.mark.parametrize(("points", "size"), [(10, 1), (1, 1000)])
def test_a_full_server_refuses_before_a_request_is_received(points, size):
    admission = make()
    admission.check_headroom()
    with admission.reserve(points, size), pytest.raises(OverloadedError):
        admission.check_headroom()
    admission.check_headroom()


@contextmanager
def called_by(name: str):
    """The block runs as this caller's request."""
    before = request_context.caller.get()
    request_context.caller.set(name)
    try:
        yield
    finally:
        request_context.caller.set(before)


def hold(admission: Admission, caller: str, points: int, size: int):
    with called_by(caller):
        hold = admission.reserve(points, size)
    hold.__enter__()
    return lambda: hold.__exit__()


@pytest.mark.parametrize(
    ("max_bytes", "held", "by_another", "asked", "message"),
    [
        (1000, (2, 20), (1, 10), (4, 1), "holds 2 points of its share of 5; no"),
        (1000, (2, 20), (1, 10), (1, 500), "holds 20 bytes of its share of 500; no"),
        (1000, (2, 20), (1, 10), (3, 1), None),
        # With one point, or one byte, inside the next request is another one.
        (1000, (1, 1), (1, 10), (5, 1), "holds 1 points of its share of 5; no"),
        (1000, (1, 1), (1, 10), (1, 500), "holds 1 bytes of its share of 500; no"),
        # One request is always within the share.
        (1000, None, (1, 10), (9, 900), None),
        # A share of one byte is full with it.
        (2, (5, 0), (1, 1), (1, 1), "share"),
        (2, (0, 1), (1, 1), (1, 1), "share"),
        # A caller that holds no points, or no bytes, may exceed its share of them.
        (1000, (0, 1), (1, 1), (9, 1), None),
        (1000, (1, 0), (1, 1), (1, 900), None),
    ],
)
async def test_while_others_call_a_caller_has_its_share_and_no_more(
    max_bytes, held, by_another, asked, message
):
    admission = make(caller_share=0.5, max_bytes=max_bytes)
    hold(admission, "b", *by_another)
    if held is not None:
        hold(admission, "a", *held)
    before = admission.points, admission.bytes
    if message is None:
        hold(admission, "a", *asked)
        assert (admission.points, admission.bytes) == tuple(
            map(sum, zip(before, asked, strict=True))
        )
        return
    with pytest.raises(CallerShareError, match=message) as caught:
        hold(admission, "a", *asked)
    assert (caught.value.retry_ms, reason_of(caught.value)) == (FULL_RETRY_MS, "caller_share")
    assert (admission.points, admission.bytes) == before
    if max_bytes == 2:  # its share is full, which is known before a message is received
        with called_by("a"), pytest.raises(CallerShareError):
            admission.check_headroom()


async def test_when_the_others_have_left_the_share_is_over():
    admission = make(caller_share=0.5)
    leave = hold(admission, "b", 1, 1)
    hold(admission, "a", 5, 1)
    with pytest.raises(CallerShareError):
        hold(admission, "a", 1, 1)
    leave()
    hold(admission, "a", 5, 1)


async def test_a_caller_refused_with_nothing_inside_gets_room_next():
    """Otherwise the caller that fills the server would take each place that it frees."""
    now = [0.0]
    admission = make(caller_share=0.5, clock=lambda: now[0])
    leaves = [hold(admission, "a", 2, 1) for _ in range(5)]
    with pytest.raises(OverloadedError, match="the server holds 10 points"):
        hold(admission, "b", 1, 1)
    leaves.pop()()
    with pytest.raises(CallerShareError):
        hold(admission, "a", 2, 1)
    # Its own refusal does not make it one who waits.
    with pytest.raises(CallerShareError):
        hold(admission, "a", 2, 1)
    hold(admission, "b", 2, 1)()
    now[0] = 0.999
    with pytest.raises(CallerShareError):
        hold(admission, "a", 2, 1)
    now[0] = 1.0
    hold(admission, "a", 2, 1)


@pytest.mark.parametrize(("points", "size"), [(6, 1), (1, 600)])
async def test_a_request_that_grows_alone_may_go_beyond_the_share_and_leaves_nothing(points, size):
    """A request is not refused for its own share, but for that of another one of its caller."""
    admission = make(caller_share=0.5)
    hold(admission, "b", 1, 1)
    with called_by("a"):
        growing = admission.reserve(3, 30)
    with growing:
        growing.add(points, size)
        assert (admission.points, admission.bytes) == (4 + points, 31 + size)
    assert (admission.points, admission.bytes) == (1, 1)
    hold(admission, "a", 1, 1)
    with called_by("a"):
        growing = admission.reserve(3, 30)
    with growing, pytest.raises(CallerShareError):
        growing.add(points, size)


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
        Admission(max_points=10, max_bytes=100, caller_share=0.5, counts=counts)
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
    slots = [CallLimits(4, 3, counts).of(SAMPLE) for counts in both[:2]]
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


@pytest.fixture
def cut(monkeypatch):
    """Peers whose connections were closed."""
    closed: list[str] = []
    monkeypatch.setattr(outgoing, "close_connection", lambda peer: bool(closed.append(peer)))
    return closed


async def test_a_peer_has_the_timeout_and_the_time_that_the_size_takes(cut, clock):
    refusals: list[str] = []
    sending = Outgoing(Admission(1, 1), 10, bytes_per_s=100, count_refusal=refusals.append)
    sending.begin(sending.hold(CallContext(), 500))
    sending.hold(CallContext(), 0)  # made and not given to gRPC yet: it waits for no peer
    clock.s += 14.9
    sending.sweep()
    assert (cut, refusals) == ([], [])
    clock.s += 0.2
    with capture_logs() as log:
        sending.sweep()
        sending.sweep()
    assert (cut, refusals) == (["ipv4:192.0.2.1:7"], ["send_timeout"])
    assert [(line["event"], line["bytes"]) for line in log] == [("peer reads too slowly", 500)]


async def test_a_response_that_was_sent_in_time_ends_no_connection(cut, clock):
    sending = Outgoing(Admission(1, 1), 10)
    response = sending.hold(CallContext(), 1)
    sending.begin(response)
    sending.end(response)
    clock.s += 1000
    sending.sweep()
    assert cut == []
