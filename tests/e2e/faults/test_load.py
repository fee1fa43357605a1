"""Many callers at once: own answers, bounds, fair shares, kept deadlines."""

from concurrent.futures import ThreadPoolExecutor

import grpc
import numpy as np
import pytest
from google.rpc import error_details_pb2
from tests.support.clouds import furthest_points
from tests.support.messages import array, details, sample_request, tensor
from tests.support.servers.server_process import SLOW_POINTS

import farpoint
from farpoint.v1 import sampling_pb2 as pb
from farpoint.v1 import sampling_pb2_grpc

RANDOM = np.random.default_rng(3)
CLOUD = RANDOM.normal(size=(1000, 3)).astype(np.float32)
EXPECTED = furthest_points(CLOUD, 20).tolist()
# Seconds on any machine; cancelled long before they are over.
HUGE = RANDOM.normal(size=(1_500_000, 3)).astype(np.float32)
HTTP = ("--http-listen", "127.0.0.1:0")
OWN = [("grpc.use_local_subchannel_pool", 1)]


def test_each_of_many_callers_gets_its_own_answer(client):
    sizes = [1, 2, 17, 300, 1024, 5000] * 8
    clouds = [RANDOM.normal(size=(size, 3)).astype(np.float32) for size in sizes]

    def sample(i: int) -> list[int]:
        return client.sample(clouds[i], min(20, sizes[i]), start=i % sizes[i]).indices.tolist()

    with ThreadPoolExecutor(16) as callers:
        answers = list(callers.map(sample, range(len(clouds))))
    for i, answer in enumerate(answers):
        assert answer == furthest_points(clouds[i], min(20, sizes[i]), i % sizes[i]).tolist()


def test_what_does_not_fit_is_refused_at_once_with_a_time_to_retry(start):
    flags = ["--max-points-in-flight", "2000", "--max-request-points", "2000"]
    flags += ["--http-listen", "127.0.0.1:0"]
    server = start(*flags, batch_s=60)
    with server.connected() as stub, farpoint.Client(server.address) as client:
        busy = [stub.Sample.future(sample_request(CLOUD, 9)) for _ in range(2)]
        server.wait_for_metric("farpoint_points_in_flight", lambda points: points == 2000)
        with pytest.raises(grpc.RpcError) as caught:
            stub.Sample(sample_request(CLOUD[:1], 1))
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        (retry_info,) = details(caught.value)
        assert retry_info.retry_delay.ToMilliseconds() == 250
        with pytest.raises(farpoint.ResourceExhaustedError) as caught:
            client.sample(CLOUD[:1], 1)
        assert caught.value.retry_after_s == 0.25
        assert not any(call.done() for call in busy)


def test_a_connection_too_many_is_closed_and_its_place_can_be_taken_later(start):
    server = start("--max-connections", "2")
    ask = pb.GetServerInfoRequest()
    channels = [grpc.insecure_channel(server.address, options=OWN) for _ in range(3)]
    stubs = [sampling_pb2_grpc.SamplingServiceStub(channel) for channel in channels]
    for stub in stubs[:2]:
        stub.GetServerInfo(ask)
    with pytest.raises(grpc.RpcError) as caught:
        stubs[2].GetServerInfo(ask, timeout=60)
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
    channels[0].close()
    stubs[2].GetServerInfo(ask, wait_for_ready=True, timeout=60)
    for channel in channels:
        channel.close()


@pytest.mark.parametrize("long_work", ["Sample", "Encode"])
def test_small_clouds_are_answered_while_long_work_runs(start, long_work):
    server = start(*HTTP)
    messages = {
        "Sample": lambda: sample_request(HUGE, len(HUGE)),
        "Encode": lambda: pb.EncodeRequest(points=tensor(RANDOM.random((300_000, 3), np.float32))),
    }
    with server.connected() as other, server.connected() as stub:
        call = getattr(other, long_work).future(messages[long_work]())
        server.wait_for_metric("farpoint_points_in_flight", lambda points: points >= 300_000)
        server.wait_for_metric("farpoint_queue_requests", lambda requests: requests == 0)
        for _ in range(20):
            answer = stub.Sample(sample_request(CLOUD, 20))
            assert array(answer.indices, "<i4").tolist() == EXPECTED
        assert not call.done()
        call.cancel()


def test_one_caller_cannot_hold_what_the_others_need(start):
    """Two connections of this machine are two callers."""
    slow = np.zeros((SLOW_POINTS, 3), np.float32)
    flags = ("--max-points-in-flight", str(4 * SLOW_POINTS))
    server = start(*HTTP, *flags, "--max-request-points", str(SLOW_POINTS), batch_s=60)

    def held(requests: int) -> None:
        points = requests * SLOW_POINTS
        server.wait_for_metric("farpoint_points_in_flight", lambda p: p == points)

    with server.connected() as greedy, server.connected() as modest:
        calls = [greedy.Sample.future(sample_request(slow, 5)) for _ in range(2)]
        held(2)
        calls.append(modest.Sample.future(sample_request(slow, 5)))
        held(3)
        with pytest.raises(grpc.RpcError) as caught:
            greedy.Sample(sample_request(slow, 5))
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "its share of 2000" in caught.value.details()
        assert isinstance(details(caught.value)[0], error_details_pb2.RetryInfo)
        calls.append(modest.Sample.future(sample_request(slow, 5)))
        held(4)
        for call in calls:
            call.cancel()
    assert server.metrics()["farpoint_refusals_total{reason=caller_share}"] == 1
