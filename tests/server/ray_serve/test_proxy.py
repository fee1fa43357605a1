"""What a proxy of Ray adds to a call, seen by a gRPC client; Ray's part is played here."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2

from farpoint_server.ray_serve import proxy
from farpoint_server.ray_serve.methods import METHODS
from farpoint_server.transport.interceptor import DETAILS_KEY, REQUEST_ID_KEY

SAMPLE = "/farpoint.v1.SamplingService/Sample"
STREAM = "/farpoint.v1.SamplingService/SampleStream"
Code = grpc.StatusCode


@pytest.fixture(autouse=True)
def no_pause(monkeypatch):
    monkeypatch.setattr(proxy, "PAUSE_S", 0)


@asynccontextmanager
async def serving(behavior: Callable[..., Any]) -> AsyncIterator[grpc.aio.Channel]:
    """A server that registers as Ray's does, with one behavior for every method."""

    class RayServer:
        def add_generic_rpc_handlers(self, handlers):
            (added,) = handlers
            kinds = ("unary_unary", "unary_stream", "stream_unary", "stream_stream")
            added._method_handlers = {
                path: handler._replace(response_serializer=None, **dict.fromkeys(kinds, behavior))
                for path, handler in added._method_handlers.items()
            }
            server.add_generic_rpc_handlers(handlers)

    server = grpc.aio.server()
    proxy.add_to_server(None, RayServer())
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield channel
    finally:
        await server.stop(0)


def dies(times: int, request_ids: bool = False) -> Callable[..., Any]:
    """Fails as Ray does where a replica has died, and then answers."""
    left = [times]

    async def behavior(request: bytes, context: Any) -> bytes:
        left[0] -= 1
        if left[0] < 0:
            return request.upper()
        context.set_code(Code.INTERNAL)
        context.set_details("The actor died unexpectedly before finishing this task.")
        if request_ids:
            context.set_trailing_metadata([(REQUEST_ID_KEY, "7")])
        return b""

    return behavior


async def failure(call: Any) -> grpc.aio.AioRpcError:
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await call
    return raised.value


def test_no_two_rpcs_have_one_name_and_none_lasts_for_ever():
    names = [method.name for method in METHODS]
    assert len(names) == len(set(names))
    assert {"Sample", "SampleStream", "SampleLarge", "Encode", "ModelInfer", "Check"} <= {*names}
    assert not {"Watch", "GetMemory", "SystemSharedMemoryRegister"} & {*names}


async def test_a_call_whose_replica_died_is_repeated():
    async with serving(dies(2)) as channel:
        assert await channel.unary_unary(SAMPLE)(b"cloud") == b"CLOUD"


async def test_a_call_that_no_replica_survives_is_one_to_try_elsewhere():
    async with serving(dies(proxy.ATTEMPTS)) as channel:
        error = await failure(
            channel.unary_unary(SAMPLE)(b"", metadata=((REQUEST_ID_KEY, "mine"),))
        )
    assert error.code() is Code.UNAVAILABLE
    assert error.details() == "the replica ended before it answered"
    assert dict(error.trailing_metadata())[REQUEST_ID_KEY] == "mine"


async def test_a_bug_that_a_replica_reports_is_not_repeated():
    async with serving(dies(1, request_ids=True)) as channel:
        assert (await failure(channel.unary_unary(SAMPLE)(b""))).code() is Code.INTERNAL


async def test_what_a_replica_says_of_an_error_arrives_whole():
    async def behavior(_: bytes, context: Any) -> bytes:
        context.set_code(Code.INVALID_ARGUMENT)
        context.set_details("points: no")
        context.set_trailing_metadata([(REQUEST_ID_KEY, "7"), (DETAILS_KEY, b"\0details")])
        return b""

    async with serving(behavior) as channel:
        error = await failure(channel.unary_unary(SAMPLE)(b""))
    assert (error.code(), error.details()) == (Code.INVALID_ARGUMENT, "points: no")
    assert dict(error.trailing_metadata())[DETAILS_KEY] == b"\0details"


async def test_too_many_calls_before_a_proxy_are_told_when_to_come_back():
    async def behavior(_: bytes, context: Any) -> bytes:
        context.set_code(Code.RESOURCE_EXHAUSTED)
        context.set_details("Request dropped due to backpressure")
        return b""

    async with serving(behavior) as channel:
        error = await failure(channel.unary_unary(SAMPLE)(b""))
    assert error.code() is Code.RESOURCE_EXHAUSTED
    status = status_pb2.Status.FromString(dict(error.trailing_metadata())[DETAILS_KEY])
    retry = error_details_pb2.RetryInfo()
    assert status.details[0].Unpack(retry)
    assert retry.retry_delay.ToMilliseconds() == proxy.RETRY_MS


async def test_a_call_has_its_application_and_its_deadline():
    seen: list[dict[str, Any]] = []

    async def behavior(_: bytes, context: Any) -> bytes:
        assert context.code() == 0
        assert context.peer().startswith("ipv4:127.0.0.1:")
        seen.append(dict(context.invocation_metadata()))
        return b""

    async with serving(behavior) as channel:
        call = channel.unary_unary(SAMPLE)
        forged = (("application", "other"), ("farpoint-timeout-ms", "1"))
        await call(b"", metadata=forged)
        await call(b"", timeout=60)
    assert seen[0]["application"] == "other"
    assert "farpoint-timeout-ms" not in seen[0]
    assert seen[1]["application"] == "farpoint"
    assert 50_000 < int(seen[1]["farpoint-timeout-ms"]) <= 61_000


async def test_a_stream_that_fails_has_its_answers_and_its_status():
    async def behavior(requests: Any, context: Any) -> AsyncIterator[bytes]:
        async for request in requests:
            yield request.upper()
        yield b""
        context.set_code(Code.UNAVAILABLE)
        context.set_details("later")
        context.set_trailing_metadata([(REQUEST_ID_KEY, "7")])
        yield b""

    async def requests() -> AsyncIterator[bytes]:
        yield b"a"
        yield b"b"

    async with serving(behavior) as channel:
        call = channel.stream_stream(STREAM)(requests())
        assert [await call.read() for _ in range(3)] == [b"A", b"B", b""]
        error = await failure(call.read())
    assert (error.code(), error.details()) == (Code.UNAVAILABLE, "later")
