"""Tokens open services by their scope, and calls that stream end with the token they began with."""

import asyncio

import grpc
import pytest
from structlog.testing import capture_logs
from tests.support.rpc import CallContext, intercept, serving

from farpoint_server import request_context
from farpoint_server.errors import PermissionDeniedError, UnauthenticatedError
from farpoint_server.services.registration import ADMIN, HEALTH, PUBLIC
from farpoint_server.transport import auth as auth_module
from farpoint_server.transport.auth import AuthInterceptor, TokenStreams, scope_of
from farpoint_server.transport.interceptor import RequestInterceptor
from farpoint_server.transport.limits import InFlight
from farpoint_server.transport.tokens import Token, TokenFile

CAMERA, OPS = "c" * 32, "o" * 32
SAMPLING = "farpoint.v1.SamplingService"
LIMIT = 4 << 20  # gRPC's own


@pytest.fixture
def call(tmp_path):
    """Calls a method of any service with a token."""
    file = tmp_path / "tokens"
    file.write_text(f"camera sample {CAMERA}\nops admin {OPS}\n")
    interceptors = RequestInterceptor(InFlight()), AuthInterceptor(TokenFile(file))

    async def echo(request, context):  # noqa: ARG001
        return request

    async def call(service, *headers, size=5):
        metadata = [("authorization", header) for header in headers]
        async with serving(echo, *interceptors, method=f"/{service}/M") as channel:
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


async def test_a_token_of_another_scope(call):
    assert await refused(call, SAMPLING, f"Bearer {OPS}") == (
        "PERMISSION_DENIED",
        "the token of 'ops' lacks the scope 'sample'",
    )
    assert (await refused(call, "farpoint.v1.AdminService", f"Bearer {CAMERA}"))[0] == (
        "PERMISSION_DENIED"
    )
    assert await call("farpoint.v1.AdminService", f"Bearer {OPS}") == bytes(5)


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


def test_every_service_has_its_scope():
    scopes = {
        service.full_name: scope_of(f"/{service.full_name}/Any")
        for service in (*PUBLIC, *ADMIN, HEALTH)
    }
    assert scopes == {
        "farpoint.v1.SamplingService": "sample",
        "inference.GRPCInferenceService": "sample",
        "farpoint.v1.AdminService": "admin",
        "grpc.health.v1.Health": None,
    }


@pytest.mark.parametrize("method", ["/a.Later/M", "", "/", "//grpc.health.v1.Health/Check", "x"])
def test_what_is_not_listed_needs_admin(method):
    assert scope_of(method) == "admin"


def test_models_are_loaded_by_administrators_whatever_the_protocol():
    service = "/inference.GRPCInferenceService"
    for method in ("RepositoryModelLoad", "RepositoryModelUnload"):
        assert scope_of(f"{service}/{method}") == "admin"
    for method in ("RepositoryIndex", "ModelStreamInfer", "SystemSharedMemoryRegister"):
        assert scope_of(f"{service}/{method}") == "sample"


CAMERA_TOKEN, OPS_TOKEN = (
    Token("camera", frozenset({"sample"}), b"c"),
    Token("ops", frozenset({"admin"}), b"o"),
)
STREAM = "/farpoint.v1.SamplingService/SampleStream"


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
async def watched(monkeypatch):
    """Tokens, streams that are watched without a pause, and a function that opens one."""
    monkeypatch.setattr(auth_module, "POLL_S", 0)
    tokens = Tokens(CAMERA_TOKEN, OPS_TOKEN)
    streams = TokenStreams(tokens, lambda _: "sample")
    watching = asyncio.create_task(streams.watch())
    yield tokens, streams
    watching.cancel()


async def wait(request, context):  # noqa: ARG001
    await asyncio.Event().wait()


def handler_of(behavior, kind="stream_stream"):
    return getattr(grpc, f"{kind}_rpc_method_handler")(behavior, bytes, str)


def begin(streams, behavior, token):
    followed = streams.follow("/a.B/C", handler_of(behavior), token)
    return asyncio.create_task(followed.stream_stream(None, CallContext()))


async def polled(tokens, times=3):
    for _ in range(times):
        tokens.looked.clear()
        await asyncio.wait_for(tokens.looked.wait(), 30)


async def test_a_stream_whose_token_is_withdrawn_ends_and_no_other(watched):
    tokens, streams = watched
    other = Token("other", frozenset({"sample"}), b"x")
    tokens.known.add(other)
    calls = [begin(streams, wait, token) for token in (CAMERA_TOKEN, other)]
    await asyncio.sleep(0)
    await polled(tokens)
    assert not any(call.done() for call in calls)
    tokens.known.discard(CAMERA_TOKEN)
    with pytest.raises(UnauthenticatedError, match="the token was revoked"):
        await asyncio.wait_for(calls[0], 30)
    await polled(tokens)
    assert not calls[1].done()
    calls[1].cancel()
    with pytest.raises(asyncio.CancelledError):
        await calls[1]
    assert not streams._open


async def test_a_stream_that_takes_its_end_slowly_is_cancelled_once(watched):
    tokens, streams = watched
    cancelled = []

    async def slow(request, context):  # noqa: ARG001
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append("cancelled")
            await polled(tokens)
            raise

    call = begin(streams, slow, CAMERA_TOKEN)
    await asyncio.sleep(0)
    tokens.known.discard(CAMERA_TOKEN)
    with pytest.raises(UnauthenticatedError):
        await asyncio.wait_for(call, 30)
    assert cancelled == ["cancelled"]


async def test_a_scope_that_is_lost_ends_it_too(watched):
    _, streams = watched
    with pytest.raises(UnauthenticatedError):
        await asyncio.wait_for(begin(streams, wait, OPS_TOKEN), 30)


async def test_what_a_stream_answers_arrives():
    async def generate(request, context):  # noqa: ARG001
        yield 1
        yield 2

    async def answer(request, context):  # noqa: ARG001
        return 3

    streams = TokenStreams(Tokens(), lambda _: None)
    followed = streams.follow("/a.B/C", handler_of(generate), CAMERA_TOKEN)
    context = CallContext()
    await followed.stream_stream(None, context)
    assert (context.written, followed.request_deserializer) == ([1, 2], bytes)
    assert followed.response_serializer is str
    for kind in ("stream_stream", "stream_unary"):
        followed = streams.follow("/a.B/D", handler_of(answer, kind), CAMERA_TOKEN)
        assert await getattr(followed, kind)(None, CallContext()) == 3
    assert not streams._open


async def test_only_a_caller_who_streams_is_followed_and_named():
    tokens = Tokens(CAMERA_TOKEN)
    auth = AuthInterceptor(tokens)
    shown = ("authorization", "Bearer camera")
    unary = grpc.unary_unary_rpc_method_handler(wait)
    request_context.variable.set(None)
    assert await intercept(auth, STREAM, unary, shown) is unary
    assert request_context.current().fields["caller"] == "camera"
    stream = handler_of(wait)
    assert await intercept(auth, STREAM, stream, shown) is not stream
    assert await intercept(auth, STREAM, None, shown) is None
    assert await intercept(auth, "/grpc.health.v1.Health/Check", unary) is unary


@pytest.mark.parametrize(
    ("metadata", "error"),
    [
        ((), UnauthenticatedError),
        ((("other", "Bearer camera"), ("authorization", b"Bearer camera")), UnauthenticatedError),
        ((("authorization", "Bearer nobody"),), UnauthenticatedError),
        ((("authorization", "Bearer ops"),), PermissionDeniedError),
    ],
)
@pytest.mark.parametrize("kind", ["unary_unary", "stream_stream"])
async def test_a_refusal_answers_as_the_method_would(metadata, error, kind):
    auth = AuthInterceptor(Tokens(CAMERA_TOKEN, OPS_TOKEN))
    refusing = await intercept(auth, STREAM, handler_of(wait, kind), *metadata)
    behavior = refusing.stream_stream if kind == "stream_stream" else refusing.stream_unary
    with pytest.raises(error):
        await behavior(None, CallContext())


async def test_tokens_are_looked_at_from_start_to_stop(monkeypatch):
    monkeypatch.setattr(auth_module, "POLL_S", 0)
    tokens = Tokens()
    auth = AuthInterceptor(tokens)
    auth.stop()
    auth.start()
    await polled(tokens)
    auth.stop()
    looks = []
    for _ in range(10):
        await asyncio.sleep(0)
        looks.append(tokens.looks)
    assert looks[4] == looks[-1]


def test_the_file_is_read_again_without_a_caller(tmp_path):
    path = tmp_path / "tokens"
    path.write_text(f"camera sample {'c' * 32}\n")
    tokens = TokenFile(path)
    path.write_text("")
    with capture_logs() as log:
        tokens.refresh()
    assert [line["event"] for line in log] == ["credentials file invalid; previous contents kept"]
