"""Files of TLS: what is refused at the start, and what a replaced file does."""

import grpc
import pytest
from tests.support.certificates import issue

from farpoint_server.config.settings import Settings
from farpoint_server.errors import SecretsUnusableError
from farpoint_server.transport import tls


def settings(files, **more):
    return Settings(tls_certificate=files.certificate, tls_key=files.key, **more)


def test_without_files_there_is_no_tls():
    assert tls.credentials(Settings()) is None


def test_files_that_do_not_fit_keep_the_server_from_starting(tmp_path):
    one, two = issue(tmp_path / "one"), issue(tmp_path / "two")
    two.key.write_bytes(one.key.read_bytes())
    with pytest.raises(SecretsUnusableError, match=r"key values mismatch in .*two/key\.pem"):
        tls.credentials(settings(two))
    two.key.write_text("no key")
    with pytest.raises(SecretsUnusableError, match=r"two/key\.pem"):
        tls.credentials(settings(two))
    two.key.unlink()
    with pytest.raises(SecretsUnusableError, match="No such file"):
        tls.credentials(settings(two))
    with pytest.raises(SecretsUnusableError, match=r"pyproject\.toml"):
        tls.credentials(settings(one, tls_client_ca="pyproject.toml"))


@pytest.fixture
async def call(tmp_path):
    """Calls a server of the files in `served` as a client with files of its own."""
    served = issue(tmp_path / "served")
    server = grpc.aio.server()
    server.add_generic_rpc_handlers([echo_handler()])
    credentials = tls.credentials(settings(served, tls_client_ca=served.ca))
    port = server.add_secure_port("127.0.0.1:0", credentials)
    await server.start()

    async def call(files):
        shown = grpc.ssl_channel_credentials(
            *(path.read_bytes() for path in (files.ca, files.key, files.certificate))
        )
        async with grpc.aio.secure_channel(f"127.0.0.1:{port}", shown) as channel:
            return await channel.unary_unary("/a.B/C")(b"hello", timeout=60)

    call.served = served
    yield call
    await server.stop(None)


async def test_a_handshake_uses_the_files_as_they_are_then(call, tmp_path):
    first, renewed = issue(tmp_path / "first"), issue(tmp_path / "renewed")
    first.replace_with(call.served)
    assert await call(first) == b"hello"
    call.served.replace_with(renewed)
    assert await call(renewed) == b"hello"
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call(first)
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


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
