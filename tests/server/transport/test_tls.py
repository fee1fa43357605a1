"""Files of TLS: what is refused at the start, and what a replaced file does."""

import grpc
import pytest
from tests.support.servers.certificates import issue

from farpoint_server.config.settings import Settings
from farpoint_server.errors import SecretsUnusableError
from farpoint_server.transport.server import GrpcServers
from farpoint_server.transport.tls import tls_files


def settings(files, **more):
    return Settings(tls_certificate=files.certificate, tls_key=files.key, **more)


def test_without_files_there_is_no_tls():
    assert tls_files(Settings()) is None


def test_files_that_do_not_fit_keep_the_server_from_starting(tmp_path):
    one, two = issue(tmp_path / "one"), issue(tmp_path / "two")
    two.key.write_bytes(one.key.read_bytes())
    with pytest.raises(SecretsUnusableError, match=r"--tls-key .*two/key\.pem: key values mism"):
        tls_files(settings(two))
    two.key.write_text("no key")
    with pytest.raises(SecretsUnusableError, match=r"two/key\.pem"):
        tls_files(settings(two))
    two.key.unlink()
    with pytest.raises(
        SecretsUnusableError, match=r"^--tls-key .*two/key\.pem: No such file or directory$"
    ):
        tls_files(settings(two))
    with pytest.raises(SecretsUnusableError, match=r"^--tls-client-ca pyproject\.toml: no "):
        tls_files(settings(one, tls_client_ca="pyproject.toml"))


@pytest.fixture
async def call(tmp_path):
    """Calls a server of the files in `served` as a client with files of its own."""
    served = issue(tmp_path / "served")
    two = ("127.0.0.1:0", "localhost:0")
    servers = GrpcServers(
        settings(served, tls_client_ca=served.ca, listen=two, admin_listen=["localhost:00"]), []
    )
    assert servers.admin is not servers.public
    for server in (servers.public, servers.admin):
        server.add_generic_rpc_handlers([echo_handler()])
    bound = servers.bind()
    addresses = (*bound.public, *bound.admin)
    assert len(addresses) == 3
    await servers.start()

    async def call(files, address=addresses[0]):
        shown = grpc.ssl_channel_credentials(
            *(path.read_bytes() for path in (files.ca, files.key, files.certificate))
        )
        async with grpc.aio.secure_channel(address, shown) as channel:
            return await channel.unary_unary("/a.B/C")(b"hello", timeout=60)

    call.served, call.addresses = served, addresses
    yield call
    await servers.stop(None)


async def test_a_handshake_uses_the_files_as_they_are_then(call, tmp_path):
    first, renewed = issue(tmp_path / "first"), issue(tmp_path / "renewed")
    first.replace_with(call.served)
    assert await call(first) == b"hello"
    call.served.replace_with(renewed)
    assert await call(renewed) == b"hello"
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call(first)
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


async def test_every_address_has_the_same_files_and_reads_them_again(call, tmp_path):
    first, renewed = issue(tmp_path / "first"), issue(tmp_path / "renewed")
    first.replace_with(call.served)
    assert [await call(first, address) for address in call.addresses] == [b"hello"] * 3
    call.served.replace_with(renewed)
    assert [await call(renewed, address) for address in call.addresses] == [b"hello"] * 3


async def test_files_that_are_half_replaced_leave_the_former_ones_in_use(call, tmp_path):
    first, renewed = issue(tmp_path / "first"), issue(tmp_path / "renewed")
    first.replace_with(call.served)
    call.served.key.write_bytes(renewed.key.read_bytes())
    assert await call(first) == b"hello"
    call.served.replace_with(renewed)
    assert await call(renewed) == b"hello"


def echo_handler():
    async def echo(request, context):  # noqa: ARG001
        return request

    handler = grpc.unary_unary_rpc_method_handler(echo)
    return grpc.method_handlers_generic_handler("a.B", {"C": handler})
