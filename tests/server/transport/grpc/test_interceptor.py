"""Each call is accepted, counted, logged once, and has the status of its error."""

import asyncio
import gc
import re
import weakref
from unittest.mock import AsyncMock, Mock

import grpc
import pytest
import structlog
from structlog.testing import capture_logs
from tests.support.rpc import METHOD, AbortError, CallContext, intercept, serving

from farpoint.v1 import sampling_pb2, tensor_pb2
from farpoint_server import request_context
from farpoint_server.codec.tensors import RequestLimits
from farpoint_server.errors import InvalidRequestError, OverloadedError, TooManyCallsError
from farpoint_server.services.stream import SampleStream
from farpoint_server.transport.admission import Admission
from farpoint_server.transport.grpc.interceptor import (
    RequestInterceptor,
    begin,
    log_end,
    request_id_of,
)
from farpoint_server.transport.limits import WATCHES, CallLimits, InFlight
from farpoint_server.transport.outgoing import Outgoing


async def fail(request, context):  # noqa: ARG001
    raise KeyError("a secret of the server")


async def echo(request, context):  # noqa: ARG001
    return request


@pytest.fixture
async def in_flight():
    return InFlight()


@pytest.fixture
async def call(in_flight):
    """Calls a method that is the given coroutine function."""

    async def call(behavior, **options):
        async with serving(behavior, RequestInterceptor(in_flight)) as channel:
            return await channel.unary_unary(METHOD)(b"hello", **options)

    return call


async def test_an_unknown_exception_is_internal_without_its_text_and_logged_once(call):
    with structlog.testing.capture_logs() as log, pytest.raises(grpc.aio.AioRpcError) as caught:
        await call(fail, metadata=[("x-request-id", "the-id")])
    assert caught.value.code() is grpc.StatusCode.INTERNAL
    assert "secret" not in caught.value.debug_error_string()
    assert "the-id" in caught.value.details()
    assert [(line["event"], line["log_level"]) for line in log] == [("request", "error")]


async def test_calls_are_counted_until_they_end_however_they_end(call, in_flight):
    assert await call(echo) == b"hello"
    with pytest.raises(grpc.aio.AioRpcError):
        await call(fail)
    begun = asyncio.Event()

    async def dawdle(request, context):  # noqa: ARG001
        begun.set()
        await asyncio.Event().wait()

    calling = asyncio.create_task(call(dawdle))
    await begun.wait()
    calling.cancel()
    await asyncio.wait([calling])
    await asyncio.wait_for(in_flight.drain(), 30)


async def test_a_method_of_one_server_is_not_one_of_another_behind_the_same_interceptor(in_flight):
    interceptor = RequestInterceptor(in_flight)
    codes = []
    for method in (METHOD, "/farpoint.test.Service/Other"):
        async with serving(echo, interceptor, method=method) as channel:
            codes.append(await channel.unary_unary(METHOD)(b"hello").code())
    assert codes == [grpc.StatusCode.OK, grpc.StatusCode.UNIMPLEMENTED]


async def yield_twice(request, context):  # noqa: ARG001
    yield b"one"
    yield b"two"


async def write_twice(request, context):  # noqa: ARG001
    await context.write(b"one")
    await context.write(b"two")


@pytest.mark.parametrize("kind", ["unary_stream", "stream_stream"])
@pytest.mark.parametrize("answer", [yield_twice, write_twice])
async def test_methods_that_stream_answers_are_guarded_too(in_flight, kind, answer):
    inside = []

    async def counted(request, context):
        inside.append(in_flight.calls)
        async for message in answer(request, context):
            yield message

    behavior = answer if answer is write_twice else counted
    with structlog.testing.capture_logs() as log:
        async with serving(behavior, RequestInterceptor(in_flight), kind=kind) as channel:
            call = getattr(channel, kind)(METHOD)(b"hello" if kind == "unary_stream" else one())
            assert [message async for message in call] == [b"one", b"two"]
            assert len(dict(await call.trailing_metadata())["x-request-id"]) == 32
    assert inside in ([], [1])
    assert [(line["event"], line["status"]) for line in log] == [("request", "OK")]
    # gRPC says that a call has ended after the client has seen it.
    await asyncio.wait_for(in_flight.drain(), 30)


async def one():
    yield b"hello"


RPC = METHOD.removeprefix("/")
WATCH = "grpc.health.v1.Health/Watch"
ID = ("x-request-id", "the-id")


class Metrics:
    """Keeps what is reported."""

    def __init__(self) -> None:
        self.calls, self.requests, self.refusals = [], [], []

    def end_call(self, rpc, code, seconds):
        self.calls.append((rpc, code, seconds))

    def end_request(self, rpc, seconds, error, fields):
        self.requests.append((rpc, seconds, error, fields))

    def count_refusal(self, reason):
        self.refusals.append(reason)


@pytest.fixture(autouse=True)
def no_request():
    """Each test is a task of its own for gRPC."""
    before = request_context.variable.set(None), request_context.caller.set("")
    yield
    request_context.variable.reset(before[0])
    request_context.caller.reset(before[1])


@pytest.fixture
def metrics():
    return Metrics()


def behavior(clock, outcome):
    """Takes a second and a half, and returns or raises the outcome."""

    async def run(request, context):  # noqa: ARG001
        clock.s += 1.5
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    return grpc.unary_unary_rpc_method_handler(run)


async def call_directly(interceptor, handler, context, rpc=RPC):
    guarded = await intercept(interceptor, f"/{rpc}", handler, ID)
    return await guarded.stream_unary(None, context)


async def test_a_call_that_is_answered(clock, metrics):
    context = CallContext(b"hello")
    with capture_logs() as log:
        answer = await call_directly(
            RequestInterceptor(InFlight(), metrics), behavior(clock, b"answer"), context
        )
    assert (answer, context.trailing) == (b"answer", dict([ID]))
    assert metrics.calls == [(RPC, "OK", 1.5)]
    fields = {"request_id": "the-id", "method": "Method"}
    assert metrics.requests == [(RPC, 1.5, None, fields)]
    assert log == [{"event": "request", "status": "OK", "server_ms": 1500.0, "log_level": "info"}]
    assert request_context.caller.get() == "ipv4:192.0.2.1"


@pytest.mark.parametrize("error", [asyncio.CancelledError(), grpc.aio.InternalError("sending")])
async def test_a_call_that_is_cancelled(clock, metrics, error):
    with capture_logs() as log, pytest.raises(asyncio.CancelledError):
        await call_directly(
            RequestInterceptor(InFlight(), metrics), behavior(clock, error), CallContext(b"hello")
        )
    assert metrics.calls == [(RPC, "CANCELLED", 1.5)]
    assert [(line["status"], line["server_ms"]) for line in log] == [("CANCELLED", 1500.0)]


@pytest.mark.parametrize(
    ("error", "code", "has_details"),
    [
        (OverloadedError("full", 5), "RESOURCE_EXHAUSTED", True),
        (KeyError("a secret"), "INTERNAL", False),
    ],
)
async def test_a_call_that_fails(clock, metrics, error, code, has_details):
    context = CallContext(b"hello")
    with capture_logs() as log, pytest.raises(AbortError):
        await call_directly(
            RequestInterceptor(InFlight(), metrics), behavior(clock, error), context
        )
    status, text, trailers = context.aborted
    assert (status, trailers["x-request-id"]) == (code, "the-id")
    assert ("grpc-status-details-bin" in trailers) == has_details
    assert "secret" not in text
    assert metrics.calls == [(RPC, code, 1.5)]
    assert [(one[:3]) for one in metrics.requests] == [(RPC, 1.5, error)]
    (line,) = log
    assert (line["event"], line["status"], line["server_ms"]) == ("request", code, 1500.0)
    assert ("exc_info" in line, "error" in line) == (not has_details, has_details)


async def test_one_call_too_many_is_counted_and_logged(clock, metrics):
    in_flight, limits = InFlight(), CallLimits(2, 1)
    interceptor = RequestInterceptor(in_flight, metrics, limits)
    first = CallContext(b"hello")
    await call_directly(interceptor, behavior(clock, b"answer"), first)
    with capture_logs() as log:
        for _ in range(2):
            refused = CallContext(b"hello")
            with pytest.raises(AbortError):
                await call_directly(interceptor, behavior(clock, b"answer"), refused)
            assert refused.aborted[0] == "RESOURCE_EXHAUSTED"
    assert in_flight.calls == 1
    assert [line["status"] for line in log] == ["RESOURCE_EXHAUSTED"] * 2
    assert [one[1] for one in metrics.calls] == ["OK"] + ["RESOURCE_EXHAUSTED"] * 2
    assert [type(one[2]) for one in metrics.requests[1:]] == [TooManyCallsError] * 2
    assert [one[1] for one in metrics.requests[1:]] == [0.0] * 2
    first.end()
    await call_directly(interceptor, behavior(clock, b"answer"), CallContext(b"hello"))


@pytest.mark.parametrize("limits", [None, CallLimits(10, 10)])
async def test_a_probe_is_neither_logged_nor_counted(clock, metrics, limits):
    interceptor = RequestInterceptor(InFlight(), metrics, limits)
    with capture_logs() as log:
        answer = await call_directly(
            interceptor, behavior(clock, b"up"), CallContext(b"hello"), WATCH
        )
    assert (answer, log, metrics.calls, metrics.requests) == (b"up", [], [], [])


async def test_a_probe_holds_its_slot_until_it_ends_and_beyond_them_is_refused(clock, metrics):
    interceptor = RequestInterceptor(InFlight(), metrics, CallLimits(10, 10))
    open_ones = [CallContext(b"hello") for _ in range(WATCHES[1])]
    for context in open_ones:
        await call_directly(interceptor, behavior(clock, b"up"), context, WATCH)
    refused = CallContext(b"hello")
    with capture_logs() as log, pytest.raises(AbortError):
        await call_directly(interceptor, behavior(clock, b"up"), refused, WATCH)
    assert (refused.aborted[0], refused.aborted[2]["x-request-id"]) == (
        "RESOURCE_EXHAUSTED",
        "the-id",
    )
    assert log == []
    assert [(one[0], type(one[2])) for one in metrics.requests] == [(WATCH, TooManyCallsError)]
    open_ones[0].end()
    await call_directly(interceptor, behavior(clock, b"up"), CallContext(b"hello"), WATCH)


@pytest.mark.parametrize("sent", ["x", "x" * 128])
def test_a_request_id_that_fits_is_kept(sent):
    assert request_id_of([("other", "a"), ("x-request-id", sent)]) == sent


@pytest.mark.parametrize("metadata", [None, [], [("x-request-id", "")], [("x-request-id", b"x")]])
def test_another_is_made_of_32_hexadecimal_digits(metadata):
    made = {request_id_of(metadata) for _ in range(40)}
    assert len(made) == 40
    assert all(re.fullmatch("[0-9a-f]{32}", one) for one in made)


@pytest.mark.parametrize("error", [None, OverloadedError("full", 5), KeyError("bug")])
def test_a_request_within_a_call_has_a_line_of_its_own(clock, error):
    ended = []
    begin(lambda *end: ended.append(end), "unix:", request_id="a")
    clock.s += 2.5
    with capture_logs() as log:
        log_end(100.0, error)
    assert ended == [(2.5, error, {"request_id": "a"})]
    (line,) = log
    assert (line["event"], line["server_ms"]) == ("request", 2500.0)
    assert line["log_level"] == ("error" if isinstance(error, KeyError) else "info")
    assert line.get("error") == ("full" if isinstance(error, OverloadedError) else None)


ONE_POINT = sampling_pb2.SampleRequest(
    points=tensor_pb2.Tensor(data_type=tensor_pb2.DATA_TYPE_FLOAT32, shape=[1, 3], data=bytes(12)),
    sample_counts=[1],
)


class Message:
    """The message of the handler; bytes themselves cannot be watched."""


async def refuse_message(message):  # noqa: ARG001
    raise OverloadedError("full", retry_ms=5)


async def meet_a_bug(message):
    raise KeyError(type(message))


async def explain(message):
    try:
        int(message)
    except TypeError as error:
        raise InvalidRequestError("field", "a number", "something else") from error


async def wait_for_work_that_fails(message):  # noqa: ARG001
    work = asyncio.get_running_loop().create_future()
    work.set_exception(OverloadedError("full", retry_ms=5))
    await work


async def fail_on_another_thread(message):
    await asyncio.to_thread(int, message)


@pytest.fixture
def without_collector():
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize(
    "fail", [refuse_message, meet_a_bug, explain, wait_for_work_that_fails, fail_on_another_thread]
)
@pytest.mark.usefixtures("without_collector")
async def test_a_failed_call_leaves_nothing_of_its_message(fail):
    messages = []

    async def behavior(_, context):  # noqa: ARG001
        message = Message()
        messages.append(weakref.ref(message))
        await fail(message)

    interceptor = RequestInterceptor(InFlight())
    async with serving(behavior, interceptor, kind="stream_unary") as channel:
        with pytest.raises(grpc.aio.AioRpcError):
            await channel.unary_unary(METHOD)(b"hello")
    (message,) = messages
    assert message() is None


@pytest.mark.usefixtures("without_collector")
async def test_a_failed_request_of_a_stream_leaves_nothing_either():
    messages = []

    async def answer(*_):
        message = Message()
        messages.append(weakref.ref(message))
        await wait_for_work_that_fails(message)

    request = sampling_pb2.SampleStreamRequest(request=ONE_POINT).SerializeToString()
    context = AsyncMock(
        read=AsyncMock(side_effect=[request, grpc.aio.EOF]),
        invocation_metadata=Mock(return_value=()),
        time_remaining=Mock(return_value=None),
    )
    outgoing = Outgoing(Admission(1, 1))
    raw = AsyncMock(return_value=None)
    pipeline = Mock(run=answer, sample_raw=raw, limits=RequestLimits(100, 1, 1), regions=None)
    await SampleStream(context, pipeline, outgoing, 300).run(asyncio.Event())
    (written,) = context.write.await_args.args
    assert sampling_pb2.SampleStreamResponse.FromString(written).error.message == "full"
    (message,) = messages
    assert message() is None
