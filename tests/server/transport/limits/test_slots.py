"""Who gets a slot for a call, and who is refused for what."""

from types import SimpleNamespace

import pytest
from structlog.testing import capture_logs

from farpoint_server.errors import TooManyCallsError
from farpoint_server.scheduling.admission import CallSlots
from farpoint_server.transport.limits import slots as module
from farpoint_server.transport.limits.slots import ADMIN, PROBES, CallLimits, RefusalLog

RPC = "farpoint.v1.SamplingService/Sample"


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


@pytest.mark.parametrize(
    ("rpc", "most"),
    [
        (RPC, 5),
        ("inference.GRPCInferenceService/ModelInfer", 5),
        ("farpoint.v1.AdminService/GetMemory", ADMIN[1]),
        ("grpc.health.v1.Health/Watch", PROBES[1]),
        ("grpc.reflection.v1.ServerReflection/ServerReflectionInfo", PROBES[1]),
    ],
)
def test_each_kind_of_call_has_slots_of_its_own(rpc, most):
    """Half of all requests are one caller's, unless the settings say otherwise."""
    limits = CallLimits(total=10, per_caller=None, retry_ms=1)
    enter(limits.of(rpc), "a", most)
    with pytest.raises(TooManyCallsError, match=f"at most {most}"):
        enter(limits.of(rpc), "a")
    others = {RPC, "farpoint.v1.AdminService/GetMemory", "grpc.health.v1.Health/Check"}
    for other in others:
        if limits.of(other) is not limits.of(rpc):
            enter(limits.of(other), "a")


def test_how_many_probes_and_operators_there_may_be():
    assert (PROBES, ADMIN) == ((256, 64), (64, 32))


@pytest.mark.parametrize(("total", "per_caller", "most"), [(1, None, 1), (3, None, 1), (3, 2, 2)])
def test_a_caller_has_half_of_all_requests_or_what_the_settings_say(total, per_caller, most):
    slots = CallLimits(total, per_caller, retry_ms=9).of(RPC)
    enter(slots, "a", most)
    with pytest.raises(TooManyCallsError, match=f"at most {most}") as caught:
        enter(slots, "a")
    assert caught.value.retry_ms == 9


def test_a_slot_that_is_given_back_is_one():
    slots = CallSlots(total=9, per_caller=3, retry_ms=1)
    enter(slots, "a", 3)
    slots.leave("a")
    enter(slots, "a")
    with pytest.raises(TooManyCallsError):
        enter(slots, "a")
    for _ in range(3):
        slots.leave("a")
    assert (slots._open, slots._count) == ({}, 0)


def test_refusals_are_one_line_a_second_with_their_number(monkeypatch):
    now = SimpleNamespace(s=0.0)
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now.s))
    refusals, error = RefusalLog(), TooManyCallsError("all 4 calls", 1)
    with capture_logs() as log:
        for moment in (0.0, 0.5, 0.999, 1.0, 1.5, 2.0):
            now.s = moment
            refusals.add(error)
    assert [line["calls"] for line in log] == [1, 3, 2]
    assert log[0] == {
        "event": "calls refused",
        "log_level": "warning",
        "calls": 1,
        "error": "all 4 calls",
    }
