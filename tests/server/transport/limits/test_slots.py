"""Which slots a call takes, by its service, and how refusals are logged."""

from types import SimpleNamespace

import pytest
from structlog.testing import capture_logs

from farpoint_server.errors import TooManyCallsError
from farpoint_server.scheduling.admission import CallSlots
from farpoint_server.transport.limits import slots as module
from farpoint_server.transport.limits.slots import ADMIN, CHECKS, WATCHES, CallLimits, RefusalLog

RPC = "farpoint.v1.SamplingService/Sample"


def enter(slots: CallSlots, caller: str, times: int = 1) -> None:
    for _ in range(times):
        slots.enter(caller)


@pytest.mark.parametrize(
    ("rpc", "most"),
    [
        (RPC, 5),
        ("inference.GRPCInferenceService/ModelInfer", 5),
        ("farpoint.v1.AdminService/GetMemory", ADMIN[1]),
        ("inference.GRPCInferenceService/RepositoryModelLoad", ADMIN[1]),
        ("grpc.health.v1.Health/Watch", WATCHES[1]),
        ("grpc.health.v1.Health/Check", CHECKS[1]),
        ("grpc.reflection.v1.ServerReflection/ServerReflectionInfo", WATCHES[1]),
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


@pytest.mark.parametrize(("total", "per_caller", "most"), [(1, None, 1), (3, None, 1), (3, 2, 2)])
def test_a_caller_has_half_of_all_requests_or_what_the_settings_say(total, per_caller, most):
    slots = CallLimits(total, per_caller, retry_ms=9).of(RPC)
    enter(slots, "a", most)
    with pytest.raises(TooManyCallsError, match=f"at most {most}") as caught:
        enter(slots, "a")
    assert caught.value.retry_ms == 9


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
        "event": "calls rejected",
        "log_level": "warning",
        "calls": 1,
        "error": "all 4 calls",
    }
