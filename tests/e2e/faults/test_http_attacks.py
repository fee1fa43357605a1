"""Hostile peers of the HTTP port: large, slow, malformed, deep, and such as do not read."""

import socket
import struct

import numpy as np
import pytest
from tests.support.messages import sample_request
from tests.support.servers.http_caller import HTTP, SERVICE, HttpCaller, raw_call
from tests.support.servers.server_process import RunningServer

MIB = 1 << 20
CLOUD = np.random.default_rng(6).normal(size=(40_000, 3)).astype(np.float32)
SMALL = sample_request(CLOUD[:10], 2)
HEAD = "POST {}Sample HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/{}\r\n"


@pytest.fixture(scope="module")
def server():
    with RunningServer(*HTTP, "--max-message-bytes", str(4 * MIB)) as server:
        yield server
    errors = [line for line in server.log if line["level"] == "error"]
    assert not errors


@pytest.fixture
def http(server):
    with HttpCaller(server) as http:
        yield http
        assert http.call("Sample", SMALL).status == 200  # after any attack


def test_an_expected_continue_comes_only_where_the_body_is_wanted(http):
    expecting = "Expect: 100-continue\r\n"
    refused = http.send(raw_call("Sample", b"", length=1 << 40, headers=expecting))
    assert refused.recv(100).startswith(b"HTTP/1.1 400")
    wanted = http.send(raw_call("Sample", b"", length=100, headers=expecting))
    assert wanted.recv(100).startswith(b"HTTP/1.1 100")


def test_bodies_that_trickle_count_and_do_not_block_others(start):
    server = start(*HTTP, "--receive-turns", "2", "--max-message-bytes", str(MIB))
    with HttpCaller(server) as http:
        slow = [http.send(raw_call("Sample", bytes(5000), length=10_000)) for _ in range(20)]
        server.wait_for_metric("farpoint_calls", lambda calls: calls == 20)
        assert http.call("Sample", SMALL).status == 200
        server.wait_for_metric("farpoint_bytes_in_flight", lambda size: size == 100_000)
        for peer in slow:
            peer.close()
        server.wait_for_metric("farpoint_calls", lambda calls: calls == 0)
        server.wait_for_metric("farpoint_bytes_in_flight", lambda size: size == 0)


def test_unread_answers_count_until_their_peers_are_disconnected(start):
    """Each of 12 peers wants 560 kB for 480 kB, and reads nothing."""
    server = start(
        *("--max-bytes-in-flight", str(4 * MIB), "--max-message-bytes", str(4 * MIB)),
        *("--send-timeout-s", "0.5", *HTTP),
    )
    request = sample_request(CLOUD, 20_000, return_points=True, return_distances=True)
    with HttpCaller(server) as http:
        peers = [socket.socket() for _ in range(12)]
        for peer in peers:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 12)
            peer.connect((http.host, http.port))
            peer.sendall(raw_call("Sample", request.SerializeToString()))
        server.wait_for(lambda line: line["event"] == "peer reads too slowly" and line["closed"])
        server.wait_for_metric("farpoint_bytes_in_flight", lambda size: size == 0)
        assert server.metrics()["farpoint_refusals_total{reason=send_timeout}"] >= 1
        assert http.call("Sample", SMALL).status == 200
        for peer in peers:
            peer.close()


def test_calls_after_one_another_on_one_connection_do_not_mix(server, http):
    """Two requests in one write: the second waits, and has fields of its own."""
    first = raw_call("Sample", SMALL.SerializeToString(), headers="X-Request-Id: first\r\n")
    second = HEAD.format(SERVICE, "json").replace("/Sample ", "/ListModels ")
    second = (second + "X-Request-Id: second\r\nContent-Length: 2\r\n\r\n{}").encode()
    peer = http.send(first + second)
    received = b""
    while b'"models"' not in received:
        part = peer.recv(1 << 16)
        assert part
        received += part
    peer.close()
    line = server.wait_for(lambda line: line.get("request_id") == "second")
    assert "points" not in line
    assert received.count(b"HTTP/1.1 200") == 2


def test_a_reset_while_the_answer_is_sent_leaves_nothing_behind(server, http):
    request = sample_request(CLOUD, 20_000, return_points=True).SerializeToString()
    for _ in range(20):
        peer = http.send(raw_call("Sample", request))
        peer.recv(10)
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        peer.close()
    server.wait_for_metric("farpoint_calls", lambda calls: calls == 0)
    server.wait_for_metric("farpoint_bytes_in_flight", lambda size: size == 0)
