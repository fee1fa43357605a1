"""Tokens open services by their scope, and calls that stream end with their token."""

import asyncio

import grpc
import pytest
from structlog.testing import capture_logs
from tests.support.rpc import AbortError, CallContext, intercept, serving

from farpoint_server import request_context
from farpoint_server.transport.auth import Auth, scope_of
from farpoint_server.transport.grpc.interceptor import RequestInterceptor
from farpoint_server.transport.limits import InFlight
from farpoint_server.transport.tokens import Token, TokenFile

CAMERA, OPS = "c" * 32, "o" * 32
SAMPLING = "farpoint.v1.SamplingService"
INFERENCE = "inference.GRPCInferenceService"
HEALTH_CHECK = "grpc.health.v1.Health/Check"
LIMIT = 4 << 20  # gRPC's own


@pytest.fixture
def call(tmp_path):
    """Calls a method of any service with a token."""
    file = tmp_path / "tokens"
    file.write_text(f"camera sample {CAMERA}\nops admin {OPS}\n")
    interceptor = RequestInterceptor(InFlight(), auth=Auth(TokenFile(file)))

    async def echo(request, context):  # noqa: ARG001
        return request

    async def call(service, *headers, size=5):
        metadata = [("authorization", header) for header in headers]
        async with serving(echo, interceptor, method=f"/{service}/M") as channel:
            return await channel.unary_unary(f"/{service}/M")(bytes(size), metadata=metadata)

    return call


async def refused(call, *arguments, **options):
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call(*arguments, **options)
    return caught.value.code().name, caught.value.details()


@pytest.mark.parametrize("header", [f"Bearer {CAMERA}", f"bearer  {CAMERA} "])
async def test_a_token_of_the_scope_passes(call, header):
    assert await call(SAMPLING, header) == bytes(5)


@pytest.mark.parametrize(
    "headers", [(), ("",), ("Bearer",), ("Bearer ",), (CAMERA,), (f"Basic {CAMERA}",)]
)
async def test_no_bearer_token(call, headers):
    code, text = await refused(call, SAMPLING, *headers)
    assert code == "UNAUTHENTICATED"
    assert text == "expected metadata authorization: Bearer TOKEN, got none"


async def test_an_unknown_token_is_not_repeated(call):
    code, text = await refused(call, SAMPLING, "Bearer not-a-token-of-this-server")
    assert code == "UNAUTHENTICATED"
    assert "not-a-token" not in text


async def test_a_message_without_a_token_is_not_even_received(call):
    too_long = 2 * LIMIT
    assert (await refused(call, SAMPLING, size=too_long))[0] == "UNAUTHENTICATED"
    with_token = await refused(call, SAMPLING, f"Bearer {CAMERA}", size=too_long)
    assert with_token[0] == "RESOURCE_EXHAUSTED"


@pytest.mark.parametrize(
    "service", ["grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection"]
)
async def test_probes_need_no_token(call, service):
    assert await call(service) == bytes(5)


@pytest.mark.parametrize(
    ("scope", "methods"),
    [
        ("sample", [f"{SAMPLING}/Any"]),
        ("sample", [f"{INFERENCE}/{name}" for name in ("RepositoryIndex", "ModelStreamInfer")]),
        ("admin", ["farpoint.v1.AdminService/Any", "a.Later/M", "", "/", "x", f"/{HEALTH_CHECK}"]),
        (None, [HEALTH_CHECK, "grpc.reflection.v1.ServerReflection/ServerReflectionInfo"]),
    ],
)
def test_each_method_has_its_scope_and_what_is_not_listed_needs_admin(scope, methods):
    assert {scope_of(method) for method in methods} == {scope}


CAMERA_TOKEN, OPS_TOKEN = (
    Token("camera", frozenset({"sample"}), b"c"),
    Token("ops", frozenset({"admin"}), b"o"),
)
STREAM = f"/{SAMPLING}/SampleStream"


class Tokens:
    """A file of these tokens, which counts how often it is looked at."""

    def __init__(self, *known: Token) -> None:
        self.known, self.looks, self.looked = set(known), 0, asyncio.Event()

    def refresh(self):
        self.looks += 1
        self.looked.set()

    def allows(self, token, scope):
        return token in self.known and scope in token.scopes

    def find(self, shown):
        return {token.name: token for token in self.known}.get(shown)


@pytest.fixture
async def watched():
    """Tokens that are looked at all the time, and the interceptor that asks for them."""
    tokens = Tokens(CAMERA_TOKEN, OPS_TOKEN)
    auth = Auth(tokens, poll_s=0)
    auth.start()
    yield tokens, RequestInterceptor(InFlight(), auth=auth)
    auth.stop()


async def wait(request, context):  # noqa: ARG001
    await asyncio.Event().wait()


async def begin(interceptor, behavior, token="camera", kind="stream_stream", method=STREAM):
    """A call in a task of its own, and its context."""
    request_context.variable.set(None)
    handler = getattr(grpc, f"{kind}_rpc_method_handler")(behavior, bytes, bytes)
    guarded = await intercept(interceptor, method, handler, ("authorization", f"Bearer {token}"))
    run, context = guarded.stream_stream or guarded.stream_unary, CallContext(b"message")
    return asyncio.create_task(run(None, context)), context


async def polled(tokens, times=3):
    for _ in range(times):
        tokens.looked.clear()
        await asyncio.wait_for(tokens.looked.wait(), 30)


async def revoked(call, context):
    with pytest.raises(AbortError):
        await asyncio.wait_for(call, 30)
    return context.aborted[:2] == ("UNAUTHENTICATED", "the token was revoked")


@pytest.mark.parametrize("kind", ["stream_stream", "stream_unary"])
async def test_a_stream_whose_token_is_revoked_ends_and_no_other(watched, kind):
    tokens, interceptor = watched
    other = Token("other", frozenset({"sample"}), b"x")
    tokens.known.add(other)
    calls = [await begin(interceptor, wait, name, kind) for name in ("camera", "other")]
    unary, _ = await begin(interceptor, wait, kind="unary_unary")
    await polled(tokens)
    assert not any(call.done() for call, _ in calls)
    tokens.known.discard(CAMERA_TOKEN)
    assert await revoked(*calls[0])
    await polled(tokens)
    for call in (calls[1][0], unary):
        assert not call.done()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call


async def test_a_caller_has_the_name_of_its_token(watched):
    async def generate(request, context):  # noqa: ARG001
        yield request_context.current().fields["caller"]
        yield request_context.caller.get()

    _, interceptor = watched
    call, context = await begin(interceptor, generate, kind="unary_stream")
    await call
    assert context.written == ["camera", "token:camera"]


def test_the_file_is_read_again_without_a_caller(tmp_path):
    path = tmp_path / "tokens"
    path.write_text(f"camera sample {'c' * 32}\n")
    tokens = TokenFile(path)
    path.write_text("")
    with capture_logs() as log:
        tokens.refresh()
    assert [line["event"] for line in log] == ["credentials file invalid; previous contents kept"]
