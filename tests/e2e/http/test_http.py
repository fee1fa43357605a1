"""Unary calls over HTTP by the Connect protocol: the answers and the errors of gRPC."""

import numpy as np
import pytest
from google.protobuf import json_format
from tests.support.messages import sample_request
from tests.support.servers.http_caller import HTTP, HttpCaller, raw_call
from tests.support.servers.server_process import RunningServer

from farpoint.v1 import sampling_pb2 as pb

CLOUD = np.random.default_rng(5).normal(size=(4000, 3)).astype(np.float32)
REQUEST = sample_request(CLOUD, 50, return_points=True, return_distances=True)
SLOW = sample_request(np.zeros((1000, 3), np.float32), 1)


@pytest.fixture(scope="module")
def server():
    with RunningServer(*HTTP, "--max-message-bytes", str(4 << 20)) as server:
        yield server


@pytest.fixture
def http(server):
    with HttpCaller(server) as http:
        yield http


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
    small = sample_request(CLOUD[:10], 1)
    assert http.call("Sample", small).status == 200  # and the engine is free
    http.close()


def test_slots_and_fairness_are_those_of_grpc(start):
    """Callers over HTTP and gRPC share the slots of the server."""
    server = start(*HTTP, "--max-concurrent-rpcs", "2", "--max-caller-rpcs", "2", batch_s=60)
    with HttpCaller(server) as http, server.connected() as stub:
        peer = http.send(raw_call("Sample", SLOW.SerializeToString()))
        call = stub.Sample.future(SLOW)
        server.wait_for_metric("farpoint_calls", lambda calls: calls == 2)
        answer = http.call("Sample", SLOW)
        assert (answer.status, answer.json["code"]) == (429, "resource_exhausted")
        assert answer.json["details"][0]["debug"] == {"retryDelay": "0.250s"}
        assert server.metrics()["farpoint_refusals_total{reason=too_many_calls}"] == 1
        call.cancel()
        peer.close()
