"""Calls that arrive, and the coroutine functions that handle them."""

import asyncio
import gc
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from types import SimpleNamespace

import grpc
import pytest
from google.protobuf.message import DecodeError
from grpc._cython import cygrpc
from structlog.testing import capture_logs
from tests.support.compute.scheduling import until
from tests.support.rpc import METHOD, CallContext

from farpoint.inference import open_inference_pb2
from farpoint_server.codec.wire import SPLIT_BYTES
from farpoint_server.errors import DeadlinePassedError, InvalidRequestError
from farpoint_server.services.receiver import Receiver
from farpoint_server.transport.grpc import accepting, handlers
from farpoint_server.transport.grpc.accepting import Acceptors
from farpoint_server.transport.grpc.handlers import adapt, parse_error, unary_methods
from farpoint_server.transport.grpc.interceptor import RequestInterceptor
from farpoint_server.transport.limits import InFlight

MANY, TIMES = 300, 7


@asynccontextmanager
async def serving(answer: Callable) -> AsyncIterator[str]:
    """The address of a server of one method that takes a stream."""
    _, service, name = METHOD.split("/")
    interceptor = RequestInterceptor(InFlight())
    server = grpc.aio.server(interceptors=[interceptor])
    handlers = {name: grpc.stream_unary_rpc_method_handler(answer)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
    acceptors = Acceptors(server, interceptor)
    acceptors.add(service, handlers)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    acceptors.start()
    yield f"127.0.0.1:{port}"
    await server.stop(None)


@contextmanager
def calling(address: str) -> Iterator[Callable[[bytes], grpc.Future]]:
    """Begins calls on a connection of its own, on threads of gRPC."""
    options = [("grpc.use_local_subchannel_pool", 1)]
    with grpc.insecure_channel(address, options) as channel:
        yield channel.unary_unary(METHOD).future


async def test_a_callers_hundreds_of_small_calls_do_not_come_before_the_next_call_of_another():
    served, turns, is_over = [], Receiver(16), False

    async def answer(_: object, context: grpc.aio.ServicerContext) -> bytes:
        served.append(await turns.receive(context))
        time.sleep(0.001)  # on the event loop, as small work is
        return b""

    async with serving(answer) as address:
        with calling(address) as one, calling(address) as other:

            def repeat(_: object = None) -> None:
                if not is_over:
                    one(b"one").add_done_callback(repeat)

            for _ in range(MANY):
                repeat()
            await until(lambda: len(served) > 2 * MANY)
            before = []
            for _ in range(TIMES):
                begun = len(served)
                await asyncio.to_thread(other(b"other").result)
                before.append(served.index(b"other", begun) - begun)
            is_over = True
    # The median, as a busy machine may keep the caller itself from sending.
    assert sorted(before)[TIMES // 2] < MANY / 3


async def test_a_server_that_stops_accepts_nothing_more_and_leaves_no_task():
    async def answer(_: object, context: grpc.aio.ServicerContext) -> bytes:
        return await context.read()

    before = asyncio.all_tasks()
    async with serving(answer) as address:
        with calling(address) as call:
            calls = [call(b"message") for _ in range(50)]
            await until(lambda: all(each.done() for each in calls))
    await until(lambda: asyncio.all_tasks() - before == {asyncio.current_task()})


async def test_nothing_of_a_call_is_kept_when_it_has_ended():
    async def answer(_: object, context: grpc.aio.ServicerContext) -> bytes:
        return await context.read()

    def ended() -> int:
        return sum(type(each) is asyncio.Task and each.done() for each in gc.get_objects())

    async with serving(answer) as address:
        with calling(address) as call:
            calls = [call(b"message") for _ in range(MANY)]
            await until(lambda: all(each.done() for each in calls))
            await until(lambda: ended() < MANY / 3)


def other_version(**others: object) -> SimpleNamespace:
    used = {name.partition(".")[0]: None for name in accepting.USED}
    return SimpleNamespace(**{name: getattr(cygrpc, name) for name in used} | others)


@pytest.mark.parametrize("other", [None, object(), other_version(_handle_rpc=bool)])
async def test_a_grpc_of_another_form_serves_and_accepts_calls_itself(monkeypatch, other):
    monkeypatch.setattr(accepting, "cygrpc", other)
    turns = Receiver(1)

    async def answer(_: object, context: grpc.aio.ServicerContext) -> bytes:
        return await turns.receive(context)

    with capture_logs() as log:
        async with serving(answer) as address:
            with calling(address) as call:
                calls = [call(b"message") for _ in range(50)]
                await until(lambda: all(each.done() for each in calls))
    assert {each.result() for each in calls} == {b"message"}
    assert log[0]["event"] == "calls are accepted one at a time"


async def test_the_installed_grpc_has_the_form_that_is_used():
    with capture_logs() as log:
        Acceptors(grpc.aio.server(), RequestInterceptor(InFlight()))
    assert log == []


def test_a_grpc_without_the_private_module_is_imported():
    hidden = "sys.modules['grpc._cython'] = None; del sys.modules['grpc._cython.cygrpc']"
    load = "from farpoint_server.transport.grpc import accepting; assert accepting.cygrpc is None"
    code = f"import sys, grpc; {hidden}; {load}"
    subprocess.run([sys.executable, "-c", code], check=True)


async def first_of(request, context):  # noqa: ARG001
    return request


async def each_of(requests, context):  # noqa: ARG001
    async for request in requests:
        yield request


async def twice(request, context):  # noqa: ARG001
    yield request
    yield request


def make(kind, behavior, deserialize=None):
    return getattr(grpc, f"{kind}_rpc_method_handler")(behavior, deserialize)


def unguarded(behavior):
    return behavior


async def test_what_a_method_returns_or_yields_arrives():
    adapted = adapt(make("unary_unary", first_of), unguarded)
    assert await adapted.stream_unary(None, CallContext(b"one", b"two")) == b"one"
    context = CallContext(b"one")
    await adapt(make("unary_stream", twice), unguarded).stream_stream(None, context)
    assert context.written == [b"one", b"one"]
    context = CallContext()

    async def two():
        yield b"one"
        yield b"two"

    await adapt(make("stream_stream", each_of), unguarded).stream_stream(two(), context)
    assert context.written == [b"one", b"two"]


async def test_a_call_without_a_message_is_wrong():
    context = CallContext()
    with pytest.raises(InvalidRequestError, match="expected one message, got none"):
        await adapt(make("unary_unary", first_of), unguarded).stream_unary(None, context)
    assert context.has_metadata


async def test_a_message_that_does_not_come_is_refused(monkeypatch):
    monkeypatch.setattr(handlers, "MESSAGE_S", 0.01)
    with pytest.raises(DeadlinePassedError, match="did not arrive in time"):
        await adapt(make("unary_unary", first_of), unguarded).stream_unary(
            None, CallContext(silent=True)
        )


async def test_bytes_that_do_not_parse_are_the_callers_mistake():
    def deserialize(data):
        if data == b"bad":
            raise DecodeError
        return data.decode()

    adapted = adapt(make("unary_unary", first_of, deserialize), unguarded)
    assert adapted.request_deserializer(b"good") == "good"
    wrong = adapted.request_deserializer(b"bad")
    with pytest.raises(InvalidRequestError, match="a serialized message, got 3 other bytes"):
        await adapted.stream_unary(None, CallContext(wrong))
    assert str(wrong) == str(parse_error(b"bad"))
    assert adapt(make("unary_unary", first_of), unguarded).request_deserializer is None


async def test_a_message_of_too_many_parts_is_refused_before_it_is_parsed():
    service = open_inference_pb2.DESCRIPTOR.services_by_name["GRPCInferenceService"]
    made = unary_methods(service, {"ModelInfer": lambda request: request})
    adapted = adapt(made["ModelInfer"], unguarded)
    parameters = b"\x22\x02\x0a\x00" * SPLIT_BYTES
    read = adapted.request_deserializer(parameters)
    assert isinstance(read, InvalidRequestError)
    assert read.field == "parameters"
    with pytest.raises(InvalidRequestError, match="at most 64"):
        await adapted.stream_unary(None, CallContext(read))
