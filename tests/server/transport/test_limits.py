"""Slots of callers, and open calls."""

import asyncio
import gc
import socket
import weakref
from contextlib import nullcontext
from pathlib import Path

import grpc
import pytest
from google.rpc import error_details_pb2
from tests.support.rpc import METHOD, CallContext, serving

from farpoint_server.errors import (
    FULL_RETRY_MS,
    DrainingError,
    TooManyCallsError,
)
from farpoint_server.transport import limits
from farpoint_server.transport.admission import Admission
from farpoint_server.transport.grpc.interceptor import RequestInterceptor
from farpoint_server.transport.limits import (
    ADMIN,
    CHECKS,
    WATCHES,
    CallLimits,
    CallSlots,
    InFlight,
    OpenCall,
)
from farpoint_server.transport.outgoing import Outgoing
from farpoint_server.transport.sockets import close_connection

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
        ("grpc.health.v1.Health/Watch", WATCHES[1]),
        ("grpc.health.v1.Health/Check", CHECKS[1]),
        ("grpc.reflection.v1.ServerReflection/ServerReflectionInfo", WATCHES[1]),
    ],
)
def test_each_kind_of_call_has_slots_of_its_own(rpc, most):
    all_limits = CallLimits(total=10, per_caller=None)
    enter(all_limits.of(rpc), "a", most)
    with pytest.raises(TooManyCallsError, match=f"at most {most}"):
        enter(all_limits.of(rpc), "a")
    others = {RPC, "farpoint.v1.AdminService/GetMemory", "grpc.health.v1.Health/Check"}
    for other in others:
        if all_limits.of(other) is not all_limits.of(rpc):
            enter(all_limits.of(other), "a")


@pytest.mark.parametrize(("total", "per_caller", "most"), [(1, None, 1), (3, None, 1), (3, 2, 2)])
def test_a_caller_has_half_of_all_requests_or_what_the_settings_say(total, per_caller, most):
    slots = CallLimits(total, per_caller).of(RPC)
    enter(slots, "a", most)
    with pytest.raises(TooManyCallsError, match=f"at most {most}") as caught:
        enter(slots, "a")
    assert caught.value.retry_ms == FULL_RETRY_MS


def test_a_token_has_its_share_of_the_slots_when_all_are_taken():
    slots = CallSlots(total=6, per_caller=6)
    enter(slots, "address", 6)
    enter(slots, "token:a", 3)  # a half of six
    with pytest.raises(TooManyCallsError):
        enter(slots, "token:a")
    enter(slots, "token:b", 2)  # a third
    with pytest.raises(TooManyCallsError):
        enter(slots, "token:b")


def test_a_token_has_one_slot_where_callers_outnumber_slots():
    slots = CallSlots(total=2, per_caller=2)
    for caller in ("a", "b"):
        enter(slots, caller)
    for caller in ("token:a", "token:b", "token:c"):
        enter(slots, caller)
        with pytest.raises(TooManyCallsError):
            enter(slots, caller)


def test_a_caller_has_its_own_bound_and_a_slot_is_free_again_after_leave():
    slots = CallSlots(total=9, per_caller=3)
    enter(slots, "a", 3)
    slots.leave("a")
    enter(slots, "a")
    with pytest.raises(TooManyCallsError, match="3 calls open of at most 3") as caught:
        enter(slots, "a")
    assert caught.value.retry_ms == FULL_RETRY_MS
    enter(slots, "b", 3)
    enter(slots, "c", 3)
    with pytest.raises(TooManyCallsError, match="all 9 calls"):
        enter(slots, "d")
    for _ in range(3):
        slots.leave("a")
    enter(slots, "d", 3)


async def test_a_call_that_has_ended_is_freed_without_the_garbage_collector():
    admission = Admission(10, 100)
    outgoing, context = Outgoing(admission), CallContext()
    gc.disable()
    try:
        call = OpenCall(context, InFlight(), None, outgoing)
        call.response = outgoing.send(context, b"answer")
        assert admission.bytes == 6
        context.end()
        freed = weakref.ref(context)
        del context, call
        assert freed() is None
    finally:
        gc.enable()
    assert admission.bytes == 0


@pytest.mark.parametrize("refuse", [False, True])
async def test_a_drain_waits_for_the_last_answer_and_refuses_if_it_is_to(refuse):
    in_flight = InFlight()
    await asyncio.wait_for(in_flight.drain(), 30)
    in_flight = InFlight()
    contexts = [CallContext(), CallContext()]
    for context in contexts:
        OpenCall(context, in_flight, None, None)
    draining = asyncio.create_task(in_flight.drain(refuse=refuse))
    await asyncio.sleep(0)
    late = CallContext()
    with pytest.raises(DrainingError) if refuse else nullcontext():
        OpenCall(late, in_flight, None, None)
        late.end()
    contexts[0].end()
    await asyncio.sleep(0)
    assert (in_flight.calls, draining.done(), in_flight.draining.is_set()) == (1, False, True)
    contexts[1].end()
    await asyncio.wait_for(draining, 30)


async def test_a_drain_keeps_answers_back_until_no_call_comes():
    in_flight, begun = InFlight(), 0

    async def answer(_: object, __: object) -> bytes:
        nonlocal begun
        begun += 1
        return b"answer"

    async with serving(answer, RequestInterceptor(in_flight), kind="unary_unary") as channel:
        call = channel.unary_unary(METHOD)
        assert await call(b"") == b"answer"
        holding = asyncio.create_task(in_flight.hold())
        await asyncio.sleep(0)
        held = [asyncio.ensure_future(call(b"").code()) for _ in range(3)]
        await asyncio.wait_for(holding, 30)
        assert begun == 4, "they are answered, but"
        assert not any(each.done() for each in held)
        await asyncio.wait_for(in_flight.drain(), 30)
        assert await asyncio.gather(*held) == [grpc.StatusCode.OK] * 3


async def test_callers_that_do_not_wait_for_answers_hold_up_a_drain_for_a_moment_only(monkeypatch):
    monkeypatch.setattr(limits, "MAX_HOLD_S", 5 * limits.QUIET_S)
    in_flight = InFlight()

    async def call() -> None:
        while not in_flight.draining.is_set():
            OpenCall(CallContext(), in_flight, None, None)
            await asyncio.sleep(limits.QUIET_S / 5)

    calling = asyncio.create_task(call())
    await asyncio.wait_for(in_flight.hold(), 30)
    calling.cancel()


@pytest.mark.parametrize(
    ("answer", "size"),
    [
        (b"four", 4),
        (error_details_pb2.ErrorInfo(reason="seven.."), 9),
        ("of no known size", 0),
    ],
)
async def test_what_an_answer_counts(answer, size):
    admission, context = Admission(10, 100), CallContext()
    outgoing = Outgoing(admission)
    OpenCall(context, InFlight(), None, outgoing).response = outgoing.send(context, answer)
    assert admission.bytes == size
    context.end()
    assert admission.bytes == 0


def test_a_peer_without_a_connection_is_not_found_and_no_descriptor_is_left(tmp_path):
    with (tmp_path / "file").open("w") as file:
        assert not close_connection("ipv4:192.0.2.1:50")
        descriptors = Path("/proc/self/fd").iterdir()
        assert [path.resolve() for path in descriptors].count(Path(file.name).resolve()) == 1
    assert not close_connection("unix:")


@pytest.mark.parametrize(
    ("family", "host", "called", "peer"),
    [
        (socket.AF_INET, "127.0.0.1", "127.0.0.1", "ipv4:127.0.0.1:{}"),
        (socket.AF_INET6, "::1", "::1", "ipv6:%5B::1%5D:{}"),
        (socket.AF_INET6, "::1", "::1", "ipv6:[::1]:{}"),
        (socket.AF_INET6, "::", "127.0.0.1", "ipv4:127.0.0.1:{}"),
    ],
)
def test_the_connection_of_a_peer_is_closed_and_no_other(family, host, called, peer):
    try:
        listening = socket.create_server(
            (host, 0), family=family, dualstack_ipv6=host == "::" and socket.has_dualstack_ipv6()
        )
    except OSError:
        pytest.skip(f"no {host} here")
    with listening:
        address = called, listening.getsockname()[1]
        with socket.create_connection(address, 30) as one:
            accepted = [listening.accept()[0]]
            with socket.create_connection(address, 30) as other:
                accepted.append(listening.accept()[0])
                assert close_connection(peer.format(one.getsockname()[1]))
                assert one.recv(1) == b""
                accepted[1].send(b"x")
                assert other.recv(1) == b"x"
            for connection in accepted:
                connection.close()
    assert not close_connection(peer.format(1))
