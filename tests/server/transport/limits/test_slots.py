"""Who gets a slot for a call, and who is refused for what."""

import pytest

from farpoint_server.errors import TooManyCallsError
from farpoint_server.scheduling.admission import CallSlots
from farpoint_server.transport.limits.slots import ADMIN, PROBES, CallLimits

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
        ("inference.GRPCInferenceService/RepositoryModelLoad", ADMIN[1]),
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
