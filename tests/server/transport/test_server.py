"""What is said of an address that cannot be bound, and which messages a server takes."""

import socket

import grpc
import pytest

from farpoint_server.config.settings import Settings
from farpoint_server.errors import AddressUnavailableError
from farpoint_server.transport.server import GrpcServers


@pytest.fixture
def taken():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"127.0.0.1:{listening.getsockname()[1]}"


async def test_a_port_in_use(taken):
    said = f"--listen {taken}: cannot be bound: Address already in use"
    with pytest.raises(AddressUnavailableError, match=said):
        GrpcServers(Settings(listen=[taken]), []).bind()


async def test_the_flag_is_that_of_the_address(taken):
    settings = Settings(listen=["127.0.0.1:0"], admin_listen=[taken])
    with pytest.raises(AddressUnavailableError, match=f"--admin-listen {taken}: .*in use"):
        GrpcServers(settings, []).bind()


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("192.0.2.1:0", "Cannot assign requested address"),
        ("no-such-host.invalid:0", "[Nn]ame|[Tt]emporary"),
        ("unix:/no/such/folder/socket", "No such file or directory"),
        ("unix:/sys/socket", "Operation not permitted|Permission denied"),
        (f"unix:/tmp/{'a' * 150}", "path too long"),
    ],
)
async def test_other_causes_are_not_called_in_use(address, why):
    with pytest.raises(AddressUnavailableError, match=why) as caught:
        GrpcServers(Settings(listen=[address]), []).bind()
    assert "in use" not in str(caught.value)


async def test_a_look_for_the_cause_leaves_no_socket_behind(tmp_path):
    (tmp_path / "folder").mkdir()
    address = f"unix:{tmp_path}/folder"
    with pytest.raises(AddressUnavailableError, match=r"--listen unix:.*in use"):
        GrpcServers(Settings(listen=[address]), []).bind()
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


@pytest.mark.parametrize("compression", ["off", "on"])
async def test_compressed_messages_are_refused_unless_asked_for(compression):
    """2 MB could unpack to 2 GiB: what is refused is not unpacked."""
    servers = GrpcServers(Settings(listen=["127.0.0.1:0"], compression=compression), [])
    servers.public.add_generic_rpc_handlers([echo_handler()])
    (address,) = servers.bind().public
    await servers.start()
    async with grpc.aio.insecure_channel(address) as channel:
        call = channel.unary_unary("/a.B/C")
        assert await call(b"plain") == b"plain"
        for method in (grpc.Compression.Gzip, grpc.Compression.Deflate):
            packed = call(bytes(1 << 16), compression=method)
            if compression == "on":
                assert await packed == bytes(1 << 16)
                continue
            with pytest.raises(grpc.aio.AioRpcError, match="disabled") as caught:
                await packed
            assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
    await servers.stop(None)


def echo_handler():
    async def echo(request, context):  # noqa: ARG001
        return request

    handler = grpc.unary_unary_rpc_method_handler(echo)
    return grpc.method_handlers_generic_handler("a.B", {"C": handler})
