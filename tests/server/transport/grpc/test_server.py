"""Addresses that cannot be bound, limits of gRPC, and files of TLS."""

import asyncio
import socket

import grpc
import pytest
from tests.support.compute.scheduling import until
from tests.support.servers.certificates import issue

from farpoint_server.config.settings import Settings
from farpoint_server.errors import StartError
from farpoint_server.transport.grpc.interceptor import RequestInterceptor
from farpoint_server.transport.grpc.server import GrpcServers
from farpoint_server.transport.limits import InFlight
from farpoint_server.transport.tls import tls_files


def make(**settings):
    return GrpcServers(Settings(**settings), RequestInterceptor(InFlight()))


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
async def test_an_address_that_cannot_be_bound_is_named_with_its_flag_and_the_reason(address, why):
    for flag, settings in (("listen", {}), ("admin-listen", {"listen": ["127.0.0.1:0"]})):
        settings = {**settings, flag.replace("-", "_"): [address]}
        with pytest.raises(StartError, match=rf"^--{flag} {address}: cannot be bound: .*({why})"):
            make(tokens_file="tokens", **settings).bind()


async def test_calls_of_a_server_that_leaves_go_on_until_it_stops():
    go_on, begun = asyncio.Event(), asyncio.Semaphore(0)

    async def answer(request: bytes, _: grpc.aio.ServicerContext) -> bytes:
        begun.release()
        await go_on.wait()
        return request

    servers = make(listen=["127.0.0.1:0"])
    servers.public.add_generic_rpc_handlers([handler_of(answer)])
    (address,) = servers.bind().public
    await servers.start()
    async with grpc.aio.insecure_channel(address) as channel:
        calls = [channel.unary_unary("/a.B/C")(b"accepted") for _ in range(2)]
        await begun.acquire()
        await begun.acquire()
        servers.leave()
        await until(lambda: not listens(address))
        assert not calls[0].done()
        go_on.set()
        assert [await call for call in calls] == [b"accepted"] * 2
    await asyncio.wait_for(servers.stop(0), 30)


async def test_compressed_messages_are_refused():
    """2 MB could unpack to 2 GiB: what is refused is not unpacked."""
    servers = make(listen=["127.0.0.1:0"])
    servers.public.add_generic_rpc_handlers([handler_of(echo)])
    (address,) = servers.bind().public
    await servers.start()
    async with grpc.aio.insecure_channel(address) as channel:
        call = channel.unary_unary("/a.B/C")
        assert await call(b"plain") == b"plain"
        for method in (grpc.Compression.Gzip, grpc.Compression.Deflate):
            with pytest.raises(grpc.aio.AioRpcError, match="disabled") as caught:
                await call(bytes(1 << 16), compression=method)
            assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
    await servers.stop(None)


async def test_a_connection_of_age_is_replaced_and_no_call_notices():
    servers = make(listen=["127.0.0.1:0"], max_connection_age_s=0.2)
    peers = set()

    async def name_peer(request, context):
        peers.add(context.peer())
        return request

    servers.public.add_generic_rpc_handlers([handler_of(name_peer)])
    (address,) = servers.bind().public
    await servers.start()
    async with grpc.aio.insecure_channel(address) as channel:
        while len(peers) < 3:
            assert await channel.unary_unary("/a.B/C")(b"plain") == b"plain"
    await servers.stop(None)


def listens(address):
    host, _, port = address.partition(":")
    with socket.socket() as peer:
        return peer.connect_ex((host, int(port))) == 0


async def echo(request, context):  # noqa: ARG001
    return request


def handler_of(behavior):
    handler = grpc.unary_unary_rpc_method_handler(behavior)
    return grpc.method_handlers_generic_handler("a.B", {"C": handler})


async def test_old_connections_have_the_time_of_the_settings_to_end(monkeypatch):
    """The other limits of gRPC are seen in tests/e2e/faults."""
    given, original = {}, grpc.aio.server

    def made(interceptors, options):
        given.update(options)
        return original(interceptors=interceptors, options=options)

    monkeypatch.setattr(grpc.aio, "server", made)
    make(max_connection_age_s=2000.75)
    assert given["grpc.max_connection_age_ms"] == 2_000_750


@pytest.mark.parametrize(
    ("listen", "admin", "is_shared"),
    [
        (["localhost:0"], [], None),
        (["localhost:0", "127.0.0.1:0"], ["127.0.0.1:0"], True),
        (["127.0.0.1:0"], ["127.0.0.1:0"], True),
        (["127.0.0.1:0"], ["localhost:0"], False),
    ],
)
async def test_administration_has_a_server_of_its_own_unless_it_shares_addresses(
    listen, admin, is_shared
):
    both = make(listen=listen, admin_listen=admin)
    assert (both.admin is None) == (is_shared is None)
    assert (both.admin is both.public) == (is_shared is True)
    bound = both.bind()
    assert len(bound.public) == len(listen)
    assert [one.partition(":")[0] for one in bound.admin] == [
        one.partition(":")[0] for one in admin
    ]
    if is_shared:
        assert bound.admin[0] == bound.public[-1]
    await both.start()
    await both.stop(None)
    for address in (*bound.public, *bound.admin):
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(address.split(":"), 30)


def tls_settings(files, **more):
    return Settings(tls_certificate=files.certificate, tls_key=files.key, **more)


def test_files_that_do_not_fit_keep_the_server_from_starting(tmp_path):
    one, two = issue(tmp_path / "one"), issue(tmp_path / "two")
    two.key.write_bytes(one.key.read_bytes())
    with pytest.raises(StartError, match=r"--tls-key .*two/key\.pem: key values mism"):
        tls_files(tls_settings(two))
    two.key.write_text("no key")
    with pytest.raises(StartError, match=r"two/key\.pem"):
        tls_files(tls_settings(two))
    two.key.unlink()
    with pytest.raises(StartError, match=r"^--tls-key .*two/key\.pem: No such file or directory$"):
        tls_files(tls_settings(two))
    with pytest.raises(StartError, match=r"^--tls-client-ca pyproject\.toml: no "):
        tls_files(tls_settings(one, tls_client_ca="pyproject.toml"))


@pytest.fixture
async def call(tmp_path):
    """Calls a server of the files in `served` as a client with files of its own."""
    served = issue(tmp_path / "served")
    two = ("127.0.0.1:0", "localhost:0")
    settings = tls_settings(
        served, tls_client_ca=served.ca, listen=two, admin_listen=["localhost:00"]
    )
    servers = GrpcServers(settings, RequestInterceptor(InFlight()))
    assert servers.admin is not servers.public
    for server in (servers.public, servers.admin):
        server.add_generic_rpc_handlers([handler_of(echo)])
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


async def test_every_address_has_the_same_files_and_reads_them_again(call, tmp_path):
    first, renewed = issue(tmp_path / "first"), issue(tmp_path / "renewed")
    first.replace_with(call.served)
    assert [await call(first, address) for address in call.addresses] == [b"hello"] * 3
    call.served.replace_with(renewed)
    assert [await call(renewed, address) for address in call.addresses] == [b"hello"] * 3
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
