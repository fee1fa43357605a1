"""One or a few peers that would crowd others out; honest callers are served during each attack."""

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager

import grpc
import numpy as np
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from tests.support.messages import sample_request
from tests.support.servers.raw_http2 import GOAWAY, RawPeer

import farpoint
from farpoint.v1 import sampling_pb2 as pb
from farpoint.v1 import sampling_pb2_grpc

SAMPLE = "/farpoint.v1.SamplingService/Sample"
CLOUD = np.random.default_rng(5).normal(size=(300, 3)).astype(np.float32)
OWN = [("grpc.use_local_subchannel_pool", 1), ("grpc.enable_retries", 0)]
PATIENCE_S = 60


@contextmanager
def peers(address: str, count: int) -> Iterator[list[RawPeer]]:
    with ExitStack() as stack:
        yield [stack.enter_context(closing(RawPeer(address))) for _ in range(count)]


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
