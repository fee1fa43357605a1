"""Short work beside long work, and the share of one caller beside others, on a real server."""

import grpc
import numpy as np
import pytest
from google.rpc import error_details_pb2, status_pb2
from tests.support.brute_force import furthest_points
from tests.support.messages import array, sample_request
from tests.support.servers.server_process import SLOW_POINTS

from farpoint.v1 import sampling_pb2 as pb
from farpoint.v1 import tensor_pb2

RANDOM = np.random.default_rng(17)
SMALL = RANDOM.normal(size=(1000, 3)).astype(np.float32)
EXPECTED = furthest_points(SMALL, 20).tolist()
# Seconds on any machine; given up long before they are over.
HUGE = RANDOM.normal(size=(1_500_000, 3)).astype(np.float32)
HTTP = ("--http-listen", "127.0.0.1:0")


def encode_request(points: int) -> pb.EncodeRequest:
    cloud = RANDOM.random((points, 3), np.float32)
    tensor = tensor_pb2.Tensor(
        data_type=tensor_pb2.DATA_TYPE_FLOAT32, shape=cloud.shape, data=cloud.tobytes()
    )
    return pb.EncodeRequest(points=tensor)


@pytest.mark.parametrize("long_work", ["Sample", "Encode"])
def test_small_clouds_are_answered_while_long_work_runs(start, long_work):
    server = start(*HTTP)
    messages = {
        "Sample": lambda: sample_request(HUGE, len(HUGE)),
        "Encode": lambda: encode_request(300_000),
    }
    with server.connected() as other, server.connected() as stub:
        call = getattr(other, long_work).future(messages[long_work]())
        server.wait_for_metric("farpoint_points_in_flight", lambda points: points >= 300_000)
        server.wait_for_metric("farpoint_queue_requests", lambda requests: requests == 0)
        for _ in range(20):
            answer = stub.Sample(sample_request(SMALL, 20))
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
        assert has_retry_info(caught.value)
        calls.append(modest.Sample.future(sample_request(slow, 5)))
        held(4)
        for call in calls:
            call.cancel()
    assert server.metrics()["farpoint_refusals_total{reason=caller_share}"] == 1


def has_retry_info(error: grpc.RpcError) -> bool:
    trailers = dict(error.trailing_metadata())
    status = status_pb2.Status.FromString(trailers["grpc-status-details-bin"])
    return any(detail.Is(error_details_pb2.RetryInfo.DESCRIPTOR) for detail in status.details)
