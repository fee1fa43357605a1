"""The interceptor of every call, behind a real gRPC server in this process."""

import asyncio
from contextlib import asynccontextmanager

import grpc
import pytest
import structlog

from farpoint_server.errors import OverloadedError
from farpoint_server.transport.interceptor import RequestInterceptor
from farpoint_server.transport.limits.open_calls import InFlight

METHOD = "/farpoint.test.Service/Method"


async def fail(request, context):  # noqa: ARG001
    raise KeyError("a secret of the server")


async def refuse(request, context):  # noqa: ARG001
    raise OverloadedError("full", retry_ms=5)


async def echo(request, context):  # noqa: ARG001
    return request


@pytest.fixture
async def in_flight():
    return InFlight()


@pytest.fixture
async def call(in_flight):
    """Calls a method that is the given coroutine function."""
    servers = []

    async def call(behavior, **options):
        handler = grpc.unary_unary_rpc_method_handler(behavior)
        server = grpc.aio.server(interceptors=[RequestInterceptor(in_flight)])
        service = grpc.method_handlers_generic_handler("farpoint.test.Service", {"Method": handler})
        server.add_generic_rpc_handlers((service,))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        servers.append(server)
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            return await channel.unary_unary(METHOD)(b"hello", **options)

    yield call
    for server in servers:
        await server.stop(None)


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


async def test_a_drained_server_is_unavailable(call, in_flight):
    await in_flight.drain()
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call(echo)
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
    assert in_flight.calls == 0


async def test_a_method_of_one_server_is_not_one_of_another_behind_the_same_interceptor(in_flight):
    interceptor = RequestInterceptor(in_flight)
    codes = []
    for method in ("Method", "Other"):
        server = grpc.aio.server(interceptors=[interceptor])
        handler = grpc.unary_unary_rpc_method_handler(echo)
        service = grpc.method_handlers_generic_handler("farpoint.test.Service", {method: handler})
        server.add_generic_rpc_handlers((service,))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            call = channel.unary_unary(METHOD)(b"hello")
            codes.append(await call.code())
        await server.stop(None)
    assert codes == [grpc.StatusCode.OK, grpc.StatusCode.UNIMPLEMENTED]


async def yield_twice(request, context):  # noqa: ARG001
    yield b"one"
    yield b"two"


async def yield_and_fail(request, context):  # noqa: ARG001
    if not isinstance(request, bytes):
        # A client that still sends when the call ends would see an error of its own making.
        async for _ in request:
            pass
    yield b"one"
    raise OverloadedError("full", retry_ms=5)


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
        async with serving(in_flight, kind, behavior) as channel:
            call = getattr(channel, kind)(METHOD)(b"hello" if kind == "unary_stream" else one())
            assert [message async for message in call] == [b"one", b"two"]
            assert len(dict(await call.trailing_metadata())["x-request-id"]) == 32
    assert inside in ([], [1])
    assert [(line["event"], line["status"]) for line in log] == [("request", "OK")]
    # gRPC says that a call has ended after the client has seen it.
    await asyncio.wait_for(in_flight.drain(), 30)


@pytest.mark.parametrize("kind", ["unary_stream", "stream_stream"])
async def test_an_error_after_the_first_answer_has_its_status(in_flight, kind):
    async with serving(in_flight, kind, yield_and_fail) as channel:
        call = getattr(channel, kind)(METHOD)(b"hello" if kind == "unary_stream" else one())
        assert await call.read() == b"one"
        assert await call.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert await call.details() == "full"


async def one():
    yield b"hello"


@asynccontextmanager
async def serving(in_flight, kind, behavior):
    """A channel to a server with a method of a kind behind the interceptor."""
    server = grpc.aio.server(interceptors=[RequestInterceptor(in_flight)])
    handler = getattr(grpc, f"{kind}_rpc_method_handler")(behavior)
    service = grpc.method_handlers_generic_handler("farpoint.test.Service", {"Method": handler})
    server.add_generic_rpc_handlers((service,))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield channel
    await server.stop(None)
