"""Who may call what, behind a real gRPC server in this process."""

import grpc
import pytest

from farpoint_server.services.registration import ADMIN, HEALTH, PUBLIC
from farpoint_server.transport.auth import AuthInterceptor, scope_of
from farpoint_server.transport.interceptor import RequestInterceptor
from farpoint_server.transport.limits.open_calls import InFlight
from farpoint_server.transport.tokens import TokenFile

CAMERA, OPS = "c" * 32, "o" * 32
SAMPLING = "farpoint.v1.SamplingService"
LIMIT = 1000


@pytest.fixture
async def call(tmp_path):
    """Calls a method of any name with a token."""
    file = tmp_path / "tokens"
    file.write_text(f"camera sample {CAMERA}\nops admin {OPS}\n")
    interceptors = [RequestInterceptor(InFlight()), AuthInterceptor(TokenFile(file))]
    options = [("grpc.max_receive_message_length", LIMIT)]
    server = grpc.aio.server(interceptors=interceptors, options=options)

    async def echo(request, context):  # noqa: ARG001
        return request

    class Everything(grpc.GenericRpcHandler):
        def service(self, details):  # noqa: ARG002
            return grpc.unary_unary_rpc_method_handler(echo)

    server.add_generic_rpc_handlers((Everything(),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:

        async def call(service, *headers, size=5):
            metadata = [("authorization", header) for header in headers]
            return await channel.unary_unary(f"/{service}/M")(bytes(size), metadata=metadata)

        yield call
    await server.stop(None)


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
