"""Calls over HTTP by the Connect protocol: answers and errors of gRPC, and hostile peers."""

import socket
import struct

import numpy as np
import pytest
from google.protobuf import json_format
from tests.support.messages import sample_request
from tests.support.servers.http_caller import HTTP, SERVICE, HttpCaller, raw_call
from tests.support.servers.server_process import RunningServer

from farpoint.v1 import sampling_pb2 as pb

CLOUD = np.random.default_rng(5).normal(size=(4000, 3)).astype(np.float32)
REQUEST = sample_request(CLOUD, 50, return_points=True, return_distances=True)
SMALL = sample_request(CLOUD[:10], 2)
SLOW = sample_request(np.zeros((1000, 3), np.float32), 1)


@pytest.fixture(scope="module")
def server():
    with RunningServer(*HTTP, "--max-message-bytes", str(4 << 20)) as server:
        yield server
    assert not [line for line in server.log if line["level"] == "error"]


@pytest.fixture
def http(server):
    with HttpCaller(server) as http:
        yield http
        assert http.call("Sample", SMALL).status == 200  # after any attack


def same(one, other):
    """Whether two answers are equal but for how long they took."""
    for answer in (one, other):
        answer.ClearField("timings")
    return one == other


@pytest.mark.parametrize(
    ("method", "request_", "kind"),
    [
        ("Sample", REQUEST, pb.SampleResponse),
        ("Encode", pb.EncodeRequest(points=REQUEST.points), pb.EncodeResponse),
        ("ListModels", pb.ListModelsRequest(), pb.ListModelsResponse),
        ("GetServerInfo", pb.GetServerInfoRequest(), pb.GetServerInfoResponse),
    ],
)
def test_an_answer_is_that_of_grpc_in_either_form(http, stub, method, request_, kind):
    wanted = getattr(stub, method)(request_)
    binary = http.call(method, request_)
    assert binary.status == 200, binary.body
    assert binary.headers["content-type"] == "application/proto"
    text = http.call_json(method, json_format.MessageToDict(request_), connect_protocol_version="1")
    assert text.status == 200, text.body
    assert text.headers["content-type"] == "application/json"
    found = [kind.FromString(binary.body), json_format.Parse(text.body, kind())]
    if "timings" in kind.DESCRIPTOR.fields_by_name:
        assert all(same(answer, wanted) for answer in found)
    else:
        assert found == [wanted, wanted]


def test_a_caller_that_leaves_cancels_its_work(start):
    """One call computes and one waits behind it; both are gone once their callers are."""
    server = start(*HTTP, batch_s=60)
    http = HttpCaller(server)
    peers = []
    for name in ("computing", "waiting"):
        head = f"X-Request-Id: {name}\r\n"
        peers.append(http.send(raw_call("Sample", SLOW.SerializeToString(), headers=head)))
        wanted = len(peers)
        server.wait_for_metric("farpoint_calls", lambda calls, wanted=wanted: calls == wanted)
    for peer in peers:
        peer.close()
    for name in ("computing", "waiting"):
        line = server.wait_for(lambda line, name=name: line.get("request_id") == name)
        assert line["status"] == "CANCELLED"
    server.wait_for_metric("farpoint_calls", lambda calls: calls == 0)
    server.wait_for_metric("farpoint_bytes_in_flight", lambda size: size == 0)
    assert http.call("Sample", SMALL).status == 200  # and the engine is free
    http.close()


LARGE = np.random.default_rng(6).normal(size=(40_000, 3)).astype(np.float32)
HEAD = "POST {}Sample HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/{}\r\n"


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
    request = sample_request(LARGE, 20_000, return_points=True).SerializeToString()
    for _ in range(20):
        peer = http.send(raw_call("Sample", request))
        peer.recv(10)
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        peer.close()
    server.wait_for_metric("farpoint_calls", lambda calls: calls == 0)
    server.wait_for_metric("farpoint_bytes_in_flight", lambda size: size == 0)
