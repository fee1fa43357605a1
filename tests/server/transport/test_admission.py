"""Points and bytes inside, and what happens at their bounds."""

from contextlib import contextmanager

import pytest

from farpoint_server import request_context
from farpoint_server.errors import CallerShareError, OverloadedError
from farpoint_server.observability.metrics import reason_of
from farpoint_server.transport.admission import Admission


def make(**bounds) -> Admission:
    return Admission(**{"max_points": 10, "max_bytes": 1000, "retry_ms": 1} | bounds)


@pytest.mark.parametrize(
    ("points", "size", "message"), [(4, 1, "no room for 4 more"), (1, 501, "no room for 501 more")]
)
def test_what_is_beyond_a_bound_is_refused_and_not_counted(points, size, message):
    admission = make(retry_ms=70)
    with admission.reserve(7, 500):
        with pytest.raises(OverloadedError, match=message) as caught:
            admission.reserve(points, size).__enter__()
        assert (admission.points, admission.bytes) == (7, 500)
    assert caught.value.retry_ms == 70
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
    admission = make(caller_share=0.5, retry_ms=70, max_bytes=max_bytes)
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
    assert (caught.value.retry_ms, reason_of(caught.value)) == (70, "caller_share")
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
    admission = make(caller_share=0.5, retry_ms=100, clock=lambda: now[0])
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
    now[0] = 0.399
    with pytest.raises(CallerShareError):
        hold(admission, "a", 2, 1)
    now[0] = 0.4
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
