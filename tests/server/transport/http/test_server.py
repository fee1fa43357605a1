"""The HTTP port: peers that are silent, trickle, do not read or are too many; addresses and TLS."""

import asyncio
import contextlib
import select
import socket
import ssl
import sys

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, StreamingResponse
from starlette.routing import Route
from tests.support.compute.scheduling import until
from tests.support.servers.certificates import issue

from farpoint_server.app.services import HEALTH, register
from farpoint_server.config.settings import Settings
from farpoint_server.errors import StartError
from farpoint_server.transport.admission import Admission
from farpoint_server.transport.grpc.health import Health
from farpoint_server.transport.grpc.interceptor import RequestInterceptor
from farpoint_server.transport.grpc.server import GrpcServers
from farpoint_server.transport.http import connection
from farpoint_server.transport.http import server as http_server
from farpoint_server.transport.http.connection import BoundedConnection
from farpoint_server.transport.http.exchange import BodyLimits
from farpoint_server.transport.http.server import HttpPort, HttpServer
from farpoint_server.transport.limits import InFlight
from farpoint_server.transport.tls import TlsFiles

GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
LARGE = 64 << 20
MAX_CONNECTIONS = 60


async def answer(_):
    return PlainTextResponse("yes")


async def read(request: Request):
    return PlainTextResponse(str(len(await request.body())))


async def large(_):
    return PlainTextResponse(b"a" * LARGE)


async def pieces(_):
    return StreamingResponse(bytes(1 << 16) for _ in range(64))


@pytest.fixture
async def served():
    """Connects to a server whose "/" answers at once and whose "/wait" once `go` is set."""
    go = asyncio.Event()

    async def wait(_):
        await go.wait()
        return PlainTextResponse("at last")

    routes = [Route(f"/{app.__name__}", app) for app in (wait, large, pieces)]
    routes += [Route("/", answer), Route("/read", read, methods=["POST"])]
    server = HttpServer("--http-listen", "127.0.0.1:0", max_connections=MAX_CONNECTIONS)
    await server.start(Starlette(routes=routes))
    host, port = server.address.split(":")
    writers = []

    async def connect(data=b"", **options):
        reader, writer = await asyncio.open_connection(host, int(port), **options)
        writers.append(writer)
        writer.write(data)
        return reader, writer

    connect.go, connect.server, connect.state = go, server, server.state
    yield connect
    for writer in writers:
        writer.close()
    await server.stop()


@pytest.fixture
def short(monkeypatch):
    monkeypatch.setattr(connection, "HEADER_TIMEOUT_S", 0.2)
    monkeypatch.setattr(connection, "TRANSFER_TIMEOUT_S", 0.2)
    monkeypatch.setattr(http_server, "SWEEP_S", 0.02)


async def end_of(reader) -> bytes:
    """All bytes until the server closes the connection."""
    data = b""
    with contextlib.suppress(ConnectionResetError):
        while part := await asyncio.wait_for(reader.read(1 << 16), 30):
            data += part
    return data


async def status(connect, data=GET, **options) -> bytes:
    reader, _ = await connect(data, **options)
    return (await asyncio.wait_for(reader.readline(), 30)).split()[1]


async def test_silent_peers_beyond_the_bound_make_room(served):
    silent = [await served(b"GET / HT") for _ in range(MAX_CONNECTIONS + 50)]
    assert await status(served) == b"200"
    oldest = [await end_of(reader) for reader, _ in silent[:50]]
    assert oldest == [b""] * 50


async def test_where_all_are_at_work_a_further_one_is_refused(served):
    request = b"GET /wait HTTP/1.1\r\nHost: a\r\n\r\n"
    at_work = [await served(request) for _ in range(MAX_CONNECTIONS)]
    tasks = served.state.tasks
    while len(tasks) < MAX_CONNECTIONS:
        await asyncio.sleep(0)
    reader, _ = await served()
    assert await end_of(reader) == connection.BUSY
    served.go.set()
    for reader, _ in at_work:
        assert b"200" in await reader.readline()


@pytest.mark.parametrize(
    "begun",
    [
        b"",
        b"GET / HTTP/1.1\r\nHost: ",
        b"POST /read HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc",
    ],
)
@pytest.mark.usefixtures("short")
async def test_what_does_not_go_on_is_closed(served, begun):
    reader, _ = await served(begun)
    assert b"200" not in await end_of(reader)


@pytest.mark.usefixtures("short")
async def test_headers_that_trickle_are_closed(served):
    reader, writer = await served(b"GET / HTTP/1.1\r\n")
    end = asyncio.ensure_future(end_of(reader))
    while not end.done():
        writer.write(b"a: b\r\n")
        await asyncio.wait((end,), timeout=0.05)
    assert end.result() == b""


@pytest.mark.usefixtures("short")
async def test_a_peer_that_does_not_read_its_answer_is_closed(served):
    reader, writer = await served(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n")
    writer.transport.pause_reading()
    while not (connections := served.state.connections):
        await asyncio.sleep(0)
    while connections:
        await asyncio.sleep(0.01)
    writer.transport.resume_reading()
    assert len(await end_of(reader)) < LARGE


@pytest.mark.usefixtures("short")
async def test_work_of_the_server_has_no_such_limit(served):
    reader, _ = await served(b"GET /wait HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    end = asyncio.ensure_future(end_of(reader))
    await asyncio.wait((end,), timeout=1)
    served.go.set()
    assert b"at last" in await end


async def test_an_answer_under_way_is_still_sent_when_the_server_stops(served):
    reader, _ = await served(b"GET /wait HTTP/1.1\r\nHost: a\r\n\r\n")
    while not served.state.tasks:
        await asyncio.sleep(0)
    stopped = asyncio.ensure_future(served.server.stop())
    await asyncio.sleep(0)
    served.go.set()
    await stopped
    assert b"at last" in await end_of(reader)


async def test_a_server_that_stops_closes_connections_and_its_port(served):
    reader, _ = await served(GET + b"GET / HT")
    assert b"200" in await reader.readline()
    await served.server.stop()
    assert (await end_of(reader)).endswith(b"yes")
    with pytest.raises(ConnectionRefusedError):
        await served()


async def test_a_server_that_stops_answers_those_that_connected_before(served):
    """Without a request, with a part of one, and while they wait in the kernel."""
    connections = [await served(), await served(b"GET / HT")]
    await until(lambda: len(served.state.connections) == 2)
    host, port = served.server.address.split(":")
    with socket.create_connection((host, int(port))) as waiting:
        stopped = asyncio.ensure_future(served.server.stop())
        await asyncio.sleep(0)
        with pytest.raises(ConnectionRefusedError):
            await served()
        waiting.sendall(GET)
        for (_, writer), rest in zip(
            connections, (GET, GET.removeprefix(b"GET / HT")), strict=True
        ):
            writer.write(rest)
        for reader, _ in connections:
            assert (await end_of(reader)).endswith(b"yes")
        await stopped
        assert waiting.recv(1 << 16).endswith(b"yes")
        assert waiting.recv(1) == b""


@pytest.mark.skipif(sys.platform != "linux", reason="others have no such filter")
async def test_no_connection_is_made_as_the_port_closes_which_the_kernel_would_reset(
    served, monkeypatch
):
    close = asyncio.Server.close
    with socket.socket() as late:
        late.setblocking(False)

        def connect_first(port):
            late.connect_ex(port.sockets[0].getsockname())
            close(port)

        monkeypatch.setattr(asyncio.Server, "close", connect_first)
        served.server.close_port()
        assert select.select([], [late], [], 0)[1] == []  # neither connected nor reset


async def test_the_time_for_an_answer_begins_with_it(served, clock):
    """And grows with what was read of it, not of one before."""
    reader, writer = await served(GET + b"GET")
    assert b"200" in await reader.readline()
    (one,) = served.state.connections
    one.close_if_late(clock.s)
    clock.s += connection.HEADER_TIMEOUT_S
    one.close_if_late(clock.s)
    assert not one.transport.is_closing()
    clock.s += 0.001
    one.close_if_late(clock.s)
    assert one.transport.is_closing()
    writer.close()


async def test_between_requests_a_connection_may_be_silent_for_longer(served, clock):
    reader, writer = await served(GET)
    assert b"200" in await reader.readline()
    (one,) = served.state.connections
    for _ in range(2):
        clock.s += 10 * connection.HEADER_TIMEOUT_S
        one.close_if_late(clock.s)
    assert not one.transport.is_closing()
    assert one.timeout_keep_alive == connection.KEEP_ALIVE_S > 60
    writer.close()


async def test_the_time_for_a_body_begins_when_it_is_looked_at_first(served, clock):
    _, writer = await served(POST % (b"read", b"Content-Length: 9\r\n\r\nabc"))
    while not served.state.tasks:
        await asyncio.sleep(0)
    (one,) = served.state.connections
    clock.s += 10 * connection.TRANSFER_TIMEOUT_S
    one.close_if_late(clock.s)
    assert not one.transport.is_closing()
    clock.s += connection.TRANSFER_TIMEOUT_S + 0.001
    one.close_if_late(clock.s)
    assert one.transport.is_closing()
    writer.close()


async def test_headers_have_a_bound(served):
    data = b"GET / HTTP/1.1\r\n" + b"a: " + b"b" * 2 * connection.MAX_HEADER_BYTES
    assert await status(served, data) == b"400"


POST = b"POST /%b HTTP/1.1\r\nHost: a\r\n%b"


@pytest.mark.parametrize("path", [b"read", b""])
@pytest.mark.parametrize(
    "rest",
    [
        b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
        b"Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
        b"content-length : 3\r\nCONTENT-LENGTH: 3\r\n\r\nabc",
        b"Content-Length: 3,3\r\n\r\nabc",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"Content-Length: 3\n\r\nabc",
        b"X: a\r\n b: c\r\nContent-Length: 3\r\n\r\nabc",
        b"Transfer-Encoding: chunked\r\n\r\n1;" + b"a" * 100_000 + b"\r\na\r\n0\r\n\r\n",
    ],
)
async def test_a_request_whose_end_is_in_doubt_is_refused_and_its_connection_closed(
    served, caplog, path, rest
):
    reader, _ = await served(GET + POST % (path, rest) + GET)
    answers = (await end_of(reader)).split(b"HTTP/1.1 ")[1:]
    assert [answer[:3] for answer in answers] == [b"200", b"400"]
    assert (
        path or caplog.records == []
    )  # the application of "/read" does not expect its caller to leave


async def test_requests_one_after_the_other_are_each_looked_at(served):
    one = POST % (b"read", b"Content-Length: 3\r\n\r\nabc")
    chunked = POST % (b"read", b"Transfer-Encoding: chunked\r\n\r\n1;x=y\r\na\r\n0\r\n\r\n")
    reader, _ = await served(
        (one + chunked) * 20 + GET.replace(b"Host", b"Connection: close\r\nHost")
    )
    assert (await end_of(reader)).count(b"HTTP/1.1 200 ") == 41


@pytest.mark.parametrize("is_late", [False, True])
async def test_answers_that_are_not_read_make_room_when_they_are_late_or_of_another_host(
    served, monkeypatch, is_late
):
    """256 unread GETs of the page's script kept all others out for a minute."""
    request = b"GET /pieces HTTP/1.1\r\nHost: a\r\n\r\n"
    for _ in range(MAX_CONNECTIONS):
        _, writer = await served(request)
        writer.transport.pause_reading()
    connections = served.state.connections
    while len([one for one in connections if one.flow and one.flow.write_paused]) < MAX_CONNECTIONS:
        await asyncio.sleep(0.01)
    assert await end_of((await served())[0]) == connection.BUSY
    if is_late:
        monkeypatch.setattr(connection, "HEADER_TIMEOUT_S", 0)
        monkeypatch.setattr(connection, "BYTES_PER_S", 1 << 40)
        assert await status(served) == b"200"
    else:
        assert await status(served, local_addr=("127.0.0.2", 0)) == b"200"


async def test_many_small_chunks_do_not_hold_the_event_loop(served, monkeypatch):
    """Parsing at a time is bounded: 200 000 chunks took 0.26 s in steps of asyncio's."""
    chunks = 20_000
    steps, handle = [], BoundedConnection.handle_events

    def record(one):
        handle(one)
        steps.append(connection.MAX_EVENTS - max(one.conn.left, 0))

    monkeypatch.setattr(BoundedConnection, "handle_events", record)
    reader, _ = await served(
        b"POST /read HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
        + b"1\r\na\r\n" * chunks
        + b"0\r\n\r\n"
    )
    assert b"200" in await reader.readline()
    assert sum(steps) > chunks
    assert max(steps) <= connection.MAX_EVENTS


async def test_what_is_written_is_sent_at_once_and_not_far_ahead_of_its_reader(served):
    """Not only once the peer has confirmed what was written before, which takes 40 ms."""
    await status(served)
    _, _ = await served(GET)
    while not (connections := served.state.connections):
        await asyncio.sleep(0)
    sockets = [one.transport.get_extra_info("socket") for one in connections]
    assert all(one.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) for one in sockets)
    unsent = {one.getsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT) for one in sockets}
    assert unsent == {connection.WRITE_BUFFER_BYTES} == {1 << 16}


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:{}/"),
        ("localhost", "http://localhost:{}/"),
        ("0.0.0.0", "http://127.0.0.1:{}/"),
        ("[::]", "http://[::1]:{}/"),
        ("[::1]", "http://[::1]:{}/"),
    ],
)
@pytest.mark.parametrize("shared", [False, True])
async def test_each_host_is_served_and_has_an_address_for_browsers(host, url, shared):
    one = HttpServer("--http-listen", f"{host}:0", shared=shared)
    taken, _, port = one.address.rpartition(":")
    assert (taken, one.url) == (host, url.format(port))
    await one.start(PlainTextResponse("yes"))
    if shared:  # by processes of the server
        await HttpServer("--http-listen", one.address, shared=True).stop()
    else:
        with pytest.raises(StartError, match="in use"):
            HttpServer("--http-listen", one.address)
    for name in ("127.0.0.1", "::1") if host == "[::]" else (host.strip("[]"),):
        reader, writer = await asyncio.open_connection(name, int(port))
        writer.write(GET)
        assert b"200" in await reader.readline()
        writer.close()
    await one.stop()


async def test_without_an_address_there_is_no_server():
    server = HttpServer("--http-listen", None)
    assert (server.address, server.url) == (None, None)
    await server.start(PlainTextResponse("yes"))
    await server.stop()


@pytest.mark.parametrize("client_ca", [False, True])
async def test_the_port_of_a_server_has_its_tls_routes_calls_and_origins(tmp_path, client_ca):
    files = issue(tmp_path / "tls")
    settings = Settings(
        listen=["127.0.0.1:0"],
        http_listen="127.0.0.1:0",
        http_origins=["https://viewer.example"],
        tls_certificate=files.certificate,
        tls_key=files.key,
        tls_client_ca=files.ca if client_ca else None,
    )
    body_limits = BodyLimits(Admission(10, 1 << 20), None, 1 << 18, 1)
    port = HttpPort(settings, GrpcServers(settings, RequestInterceptor(InFlight())), body_limits)
    register([port.exchange.calls], HEALTH, Health(["a"]).methods())
    await port.serve([Route("/route", answer)], [HEALTH])
    assert port.url == f"https://{port.address}/"
    check = "POST /grpc.health.v1.Health/Check HTTP/1.1\r\nContent-Type: application/json\r\n"
    requests = (
        "GET /route HTTP/1.1\r\n",
        f"{check}Origin: https://viewer.example\r\nContent-Length: 2\r\n",
        f"{check}Origin: https://evil.example\r\nContent-Length: 2\r\n",
    )
    statuses = []
    for shows_certificate in (False, True):
        context = ssl.create_default_context(cafile=files.ca)
        if shows_certificate:
            context.load_cert_chain(files.certificate, files.key)
        for request in requests:
            reader, writer = await asyncio.open_connection(*port.address.split(":"), ssl=context)
            body = "{}" if "POST" in request else ""
            ending = f"Host: localhost\r\nConnection: close\r\n\r\n{body}"
            writer.write((request + ending).encode())
            statuses.append((await end_of(reader)).split()[1])
            writer.close()
    assert statuses == [b"200", b"401" if client_ca else b"200", b"403", b"200", b"200", b"403"]
    await port.stop()


@pytest.mark.parametrize("begun", [b"", b"\x16\x03\x01\x02\x00", b"GET / HTTP/1.1\r\n\r\n"])
@pytest.mark.usefixtures("short")
async def test_a_handshake_that_does_not_end_counts_until_it_is_closed(tmp_path, begun):
    """A connection is one of the number, and bounded in time, before it is secure."""
    files = issue(tmp_path / "tls")
    tls = TlsFiles(files.certificate, files.key, None)
    server = HttpServer("--http-listen", "127.0.0.1:0", tls.http_context, max_connections=1)
    await server.start(PlainTextResponse("yes"))
    host, port = server.address.split(":")
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(begun)
    await end_of(reader)
    writer.close()
    context = ssl.create_default_context(cafile=files.ca)
    reader, writer = await asyncio.open_connection(host, port, ssl=context)
    writer.write(GET)
    assert b"200" in await asyncio.wait_for(reader.readline(), 30)
    await server.stop()
    assert (await end_of(reader)).endswith(b"yes")
    writer.close()


async def test_a_stop_waits_for_answers_only_so_long_and_closes_their_connections(served):
    reader, _ = await served(b"GET /wait HTTP/1.1\r\nHost: a\r\n\r\n")
    while not served.state.tasks:
        await asyncio.sleep(0)
    await asyncio.wait_for(served.server.stop(0.05), 30)
    assert await end_of(reader) == b""


async def test_an_address_that_is_taken_and_not_served_is_given_back():
    server = HttpServer("--http-listen", "127.0.0.1:0")
    await server.stop()
    again = HttpServer("--http-listen", server.address)
    await again.stop()


@pytest.mark.parametrize(
    ("address", "why"),
    [("127.0.0.1:port", "invalid literal"), ("192.0.2.1:0", "Cannot assign requested address")],
)
def test_an_address_that_cannot_be_bound_is_named_with_its_flag(address, why):
    expected = f"--http-listen {address}: cannot be bound: .*{why}"
    with pytest.raises(StartError, match=expected):
        HttpServer("--http-listen", address)
