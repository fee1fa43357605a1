"""What a response counts, and how long its peer may take, by a clock of our own."""

import socket

import pytest
import structlog

from farpoint_server.scheduling.admission import Admission
from farpoint_server.transport.limits import open_calls
from farpoint_server.transport.limits.connections import close_connection, parse_peer
from farpoint_server.transport.limits.open_calls import Outgoing


class Peer:
    """The context of a call."""

    def peer(self) -> str:
        return "ipv4:192.0.2.1:7"


@pytest.fixture
def cut(monkeypatch):
    """Peers whose connections were closed."""
    closed: list[str] = []
    monkeypatch.setattr(open_calls, "close_connection", lambda peer: bool(closed.append(peer)))
    return closed


@pytest.fixture
def clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    return now


async def test_a_response_counts_until_it_ends():
    admission = Admission(1, 100, 1)
    sending = Outgoing(admission)
    responses = [sending.hold(Peer(), size) for size in (70, 80)]
    assert admission.bytes == 150  # bytes that are there are never refused
    for response in responses:
        sending.begin(response)
        sending.end(response)
    assert admission.bytes == 0


async def test_a_peer_has_the_timeout_and_the_time_that_the_size_takes(cut, clock):
    refusals: list[str] = []
    sending = Outgoing(Admission(1, 1, 1), 10, bytes_per_s=100, count_refusal=refusals.append)
    sending.begin(sending.hold(Peer(), 500))
    sending.hold(Peer(), 0)  # made and not given to gRPC yet: it waits for nobody
    clock[0] += 14.9
    sending._look()
    assert (cut, refusals) == ([], [])
    clock[0] += 0.2
    with structlog.testing.capture_logs() as log:
        sending._look()
        sending._look()
    assert (cut, refusals) == (["ipv4:192.0.2.1:7"], ["send_timeout"])
    assert [(line["event"], line["bytes"]) for line in log] == [("peer reads too slowly", 500)]


async def test_a_response_that_was_sent_in_time_cuts_nobody_off(cut, clock):
    sending = Outgoing(Admission(1, 1, 1), 10)
    response = sending.hold(Peer(), 1)
    sending.begin(response)
    sending.end(response)
    clock[0] += 1000
    sending._look()
    assert cut == []


@pytest.mark.parametrize(
    ("peer", "address"),
    [
        ("ipv4:192.0.2.1:50", ("192.0.2.1", 50)),
        ("ipv6:%5B2001:db8::1%5D:50", ("2001:db8::1", 50)),
        ("ipv6:[::ffff:192.0.2.1]:50", ("192.0.2.1", 50)),
        ("unix:", None),
        ("ipv4:192.0.2.1:port", None),
        ("ipv4:host:50", ("host", 50)),
        ("unix:/run/socket", None),
    ],
)
def test_addresses_of_peers(peer, address):
    assert parse_peer(peer) == address


def test_a_peer_without_a_connection_is_not_found():
    assert not close_connection("ipv4:192.0.2.1:50")
    assert not close_connection("unix:")


@pytest.mark.parametrize(
    ("family", "host", "called", "peer"),
    [
        (socket.AF_INET, "127.0.0.1", "127.0.0.1", "ipv4:127.0.0.1:{}"),
        (socket.AF_INET6, "::1", "::1", "ipv6:%5B::1%5D:{}"),
        (socket.AF_INET6, "::", "127.0.0.1", "ipv4:127.0.0.1:{}"),
    ],
)
def test_the_connection_of_a_peer_is_closed_and_no_other(family, host, called, peer):
    try:
        listening = socket.create_server(
            (host, 0), family=family, dualstack_ipv6=host == "::" and socket.has_dualstack_ipv6()
        )
    except OSError:
        pytest.skip(f"no {host} here")
    with listening:
        address = called, listening.getsockname()[1]
        with socket.create_connection(address, 30) as one:
            accepted = [listening.accept()[0]]
            with socket.create_connection(address, 30) as other:
                accepted.append(listening.accept()[0])
                assert close_connection(peer.format(one.getsockname()[1]))
                assert one.recv(1) == b""
                accepted[1].send(b"x")
                assert other.recv(1) == b"x"
            for connection in accepted:
                connection.close()
    assert not close_connection(peer.format(1))


def test_where_descriptors_are_not_listed_none_is_found(monkeypatch, tmp_path):
    monkeypatch.setattr("farpoint_server.transport.limits.connections.DESCRIPTORS", tmp_path / "x")
    assert not close_connection("ipv4:192.0.2.1:50")
