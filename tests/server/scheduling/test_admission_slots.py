"""Slots of open calls: who gets one, and who is refused for what."""

import pytest

from farpoint_server.errors import TooManyCallsError
from farpoint_server.scheduling.admission import CallSlots


def enter(slots: CallSlots, caller: str, times: int = 1) -> None:
    for _ in range(times):
        slots.enter(caller)


def test_a_caller_has_its_own_bound_and_gets_its_slots_back():
    slots = CallSlots(total=10, per_caller=2, retry_ms=70)
    enter(slots, "a", 2)
    with pytest.raises(TooManyCallsError, match="2 calls open of at most 2") as caught:
        enter(slots, "a")
    assert caught.value.retry_ms == 70
    enter(slots, "b", 2)
    slots.leave("a")
    enter(slots, "a")


def test_an_address_is_refused_where_all_slots_are_taken():
    slots = CallSlots(total=4, per_caller=4, retry_ms=1)
    enter(slots, "a", 4)
    with pytest.raises(TooManyCallsError, match="all 4 calls"):
        enter(slots, "b")
    slots.leave("a")
    enter(slots, "b")


def test_a_token_has_its_share_of_the_slots_whoever_has_taken_them():
    slots = CallSlots(total=6, per_caller=6, retry_ms=1)
    enter(slots, "address", 6)
    enter(slots, "token:a", 3)  # a half of six
    with pytest.raises(TooManyCallsError):
        enter(slots, "token:a")
    enter(slots, "token:b", 2)  # a third
    with pytest.raises(TooManyCallsError):
        enter(slots, "token:b")


def test_a_token_has_one_slot_where_callers_outnumber_slots():
    slots = CallSlots(total=2, per_caller=2, retry_ms=1)
    for caller in ("a", "b"):
        enter(slots, caller)
    for caller in ("token:a", "token:b", "token:c"):
        enter(slots, caller)
        with pytest.raises(TooManyCallsError):
            enter(slots, caller)


def test_a_refused_call_is_not_counted():
    slots = CallSlots(total=1, per_caller=1, retry_ms=1)
    enter(slots, "a")
    for _ in range(3):
        with pytest.raises(TooManyCallsError):
            enter(slots, "b")
    slots.leave("a")
    enter(slots, "b")


def test_a_slot_that_is_given_back_is_one():
    slots = CallSlots(total=9, per_caller=3, retry_ms=1)
    enter(slots, "a", 3)
    slots.leave("a")
    enter(slots, "a")
    with pytest.raises(TooManyCallsError):
        enter(slots, "a")
    for _ in range(3):
        slots.leave("a")
    enter(slots, "a", 3)
    enter(slots, "b", 3)
    enter(slots, "c", 3)
