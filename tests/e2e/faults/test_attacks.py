"""One or a few peers that would crowd others out; honest callers are served during each attack."""

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from itertools import chain

import grpc
import numpy as np
import pytest
from google.rpc import error_details_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from tests.support.messages import details, sample_request
from tests.support.servers.raw_http2 import GOAWAY, RawPeer

import farpoint
from farpoint.v1 import sampling_pb2 as pb
from farpoint.v1 import sampling_pb2_grpc

SAMPLE = "/farpoint.v1.SamplingService/Sample"
CLOUD = np.random.default_rng(5).normal(size=(300, 3)).astype(np.float32)
RAW_REQUEST = sample_request(CLOUD, 5)
OWN = [("grpc.use_local_subchannel_pool", 1), ("grpc.enable_retries", 0)]
PATIENCE_S = 60
TOKEN = "0123456789abcdef0123456789abcdef"


@contextmanager
def peers(address: str, count: int, window: int = 0) -> Iterator[list[RawPeer]]:
    with ExitStack() as stack:
        yield [stack.enter_context(closing(RawPeer(address, window))) for _ in range(count)]


def test_rapid_resets_of_one_peer_cancel_no_call_of_another(start):
    server = start()
    stop = threading.Event()

    def attack(peer: RawPeer) -> None:
        for _ in range(20_000):
            if stop.is_set():
                return
            try:
                peer.reset(peer.begin(SAMPLE))
            except OSError:  # the server has closed the connection
                return

    with peers(server.address, 3) as attackers:
        threads = [threading.Thread(target=attack, args=(peer,)) for peer in attackers]
        for thread in threads:
            thread.start()
        with farpoint.Client(server.address, timeout=PATIENCE_S) as client:
            for _ in range(30):
                assert len(client.sample(CLOUD, 5).indices) == 5
        stop.set()
        for thread in threads:
            thread.join()


def test_unread_answers_count_until_their_peers_are_disconnected(start):
    """Each of 12 peers wants 560 kB for 480 kB, and reads nothing."""
    server = start(
        *("--max-bytes-in-flight", str(4 << 20), "--max-message-bytes", str(4 << 20)),
        *("--send-timeout-s", "0.5", "--http-listen", "127.0.0.1:0"),
    )
    cloud = np.random.default_rng(6).normal(size=(40_000, 3)).astype(np.float32)
    raw = sample_request(cloud, 20_000, return_points=True, return_distances=True)
    with peers(server.address, 12) as attackers:
        for peer in attackers:
            peer.send(peer.begin(SAMPLE), raw.SerializeToString())
        server.wait_for_metric("farpoint_bytes_in_flight", lambda size: size > 2 << 20)
        server.wait_for(lambda line: line["event"] == "peer reads too slowly" and line["closed"])
        server.wait_for_metric("farpoint_bytes_in_flight", lambda size: size == 0)
        cut = server.metrics()["farpoint_refusals_total{reason=send_timeout}"]
        assert 4 <= cut <= len(attackers)
        with farpoint.Client(server.address) as client:
            assert len(client.sample(CLOUD, 5).indices) == 5


def test_an_unread_answer_of_a_stream_counts_too(start):
    server = start("--send-timeout-s", "0.5", "--http-listen", "127.0.0.1:0")
    cloud = np.random.default_rng(6).normal(size=(20_000, 3)).astype(np.float32)
    request = sample_request(cloud, 20_000, return_points=True)
    raw = pb.SampleStreamRequest(request=request).SerializeToString()
    with peers(server.address, 1) as (peer,):
        stream = peer.begin("/farpoint.v1.SamplingService/SampleStream")
        for _ in range(3):
            peer.send(stream, raw, end=False)
        server.wait_for_metric("farpoint_bytes_in_flight", lambda size: size >= 3 * 320_000)
        server.wait_for(lambda line: line["event"] == "peer reads too slowly" and line["closed"])
        server.wait_for_metric("farpoint_bytes_in_flight", lambda size: size == 0)


def test_trickling_uploads_and_half_messages_do_not_block_other_callers(start):
    limits = ("--max-points-in-flight", "100000", "--max-request-points", "100000")
    server, go_on = start("--receive-turns", "2", *limits), threading.Event()
    host, _, port = server.address.rpartition(":")
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
    head = sample_request(np.zeros((1, 3), np.float32), 5)
    head.points.shape[0], head.points.data = 100_000, b""
    begun = [pb.SampleLargeRequest(request=head), pb.SampleLargeRequest(points_data=bytes(1200))]
    with ExitStack() as stack:
        for i in range(40):
            half = stack.enter_context(socket.create_connection((host, int(port))))
            half.sendall([b"", preface, b"GET / HTTP/1.1\r\n", os.urandom(64)][i % 4])
        stub = stack.enter_context(server.connected())
        slow = [stub.SampleLarge.future(chain(begun, iter(go_on.wait, True))) for _ in range(4)]
        for _ in range(60):
            assert len(stub.Sample(RAW_REQUEST, timeout=PATIENCE_S).indices.data) == 4 * 5
        assert not any(call.done() for call in slow)
        go_on.set()
        for call in slow:
            call.cancel()


def test_watches_without_a_token_leave_room_for_probes_and_for_callers_with_one(start, tmp_path):
    """On loopback a connection is a caller: four of them once took every slot of health."""
    (tmp_path / "tokens").write_text(f"camera sample {TOKEN}\n")
    server = start(
        *("--tokens-file", str(tmp_path / "tokens"), "--max-concurrent-rpcs", "4"),
        *("--http-listen", "127.0.0.1:0"),
    )
    ask = health_pb2.HealthCheckRequest()
    with ExitStack() as stack:
        channels = (grpc.insecure_channel(server.address, options=OWN) for _ in range(5))
        *watching, probing = (
            health_pb2_grpc.HealthStub(stack.enter_context(channel)) for channel in channels
        )
        watches = [stub.Watch(ask) for stub in watching[:3] for _ in range(64)]
        for watch in watches:
            assert next(watch).status == health_pb2.HealthCheckResponse.SERVING
        for stub in (watching[0], watching[3]):
            with pytest.raises(grpc.RpcError) as caught:
                next(stub.Watch(ask))
            assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert isinstance(details(caught.value)[0], error_details_pb2.RetryInfo)
        for _ in range(20):
            status = probing.Check(ask, timeout=PATIENCE_S).status
            assert status == health_pb2.HealthCheckResponse.SERVING
        with farpoint.Client(server.address, token=TOKEN) as client:
            assert len(client.sample(CLOUD, 5).indices) == 5
    assert server.metrics()["farpoint_refusals_total{reason=too_many_calls}"] == 2


def test_a_caller_with_a_token_below_its_share_is_served_though_all_slots_are_taken(
    start, tmp_path
):
    """Calls that never send their message hold the slots."""
    other = TOKEN[::-1]
    (tmp_path / "tokens").write_text(f"greedy sample {TOKEN}\nmodest sample {other}\n")
    server = start(
        *("--tokens-file", str(tmp_path / "tokens"), "--http-listen", "127.0.0.1:0"),
        *("--max-concurrent-rpcs", "8", "--max-caller-rpcs", "8"),
    )
    with peers(server.address, 1, window=1 << 20) as (peer,):
        for _ in range(8):
            peer.begin(SAMPLE, ("authorization", f"Bearer {TOKEN}"))
        server.wait_for_metric("farpoint_calls", lambda calls: calls == 8)
        with farpoint.Client(server.address, token=other) as client:
            assert len(client.sample(CLOUD, 5).indices) == 5
        with server.connected() as stub, pytest.raises(grpc.RpcError) as caught:
            stub.Sample(RAW_REQUEST, metadata=[("authorization", f"Bearer {TOKEN}")])
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert caught.value.details() == "the caller has 8 calls open of at most 8"


def test_silent_connections_make_room_after_the_handshake_timeout(start):
    server = start("--max-connections", "4", "--handshake-timeout-s", "0.5")
    host, _, port = server.address.rpartition(":")
    silent = [socket.create_connection((host, int(port))) for _ in range(8)]
    with grpc.insecure_channel(server.address, options=OWN) as channel:
        stub = sampling_pb2_grpc.SamplingServiceStub(channel)
        ask = pb.GetServerInfoRequest()
        assert stub.GetServerInfo(ask, wait_for_ready=True, timeout=PATIENCE_S).version
    for connection in silent:
        with connection:
            connection.settimeout(PATIENCE_S)
            while connection.recv(4096):  # the server's settings, and then its end
                pass


def test_idle_connections_and_streams_end_and_watches_stay(start):
    server = start("--idle-timeout-s", "0.5")
    with (
        peers(server.address, 1) as (peer,),
        server.connected() as stub,
        grpc.insecure_channel(server.address, options=OWN) as channel,
    ):
        watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest())
        assert next(watch).status == health_pb2.HealthCheckResponse.SERVING
        stay = threading.Event()
        answers = stub.SampleStream(iter(stay.wait, True))
        with pytest.raises(grpc.RpcError, match=r"nothing arrived for 0\.5 s") as caught:
            next(answers)
        stay.set()
        assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        assert any(kind == GOAWAY for kind, *_ in peer.frames())  # and then it is closed
        assert watch.is_active()
