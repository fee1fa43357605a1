"""Calls of the stock client through Ray's proxies, while replicas come and go."""

from concurrent.futures import ThreadPoolExecutor

import grpc
import numpy as np
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from tests.ray.test_serving import CLOUD, load
from tests.support.ray_cluster import REPLICA, wait_until

import farpoint
from farpoint_ops.arrays import sample_array

pytestmark = [pytest.mark.timeout(900), pytest.mark.filterwarnings("ignore")]
MESSAGE_BYTES = 1 << 20


def check_calls(client: farpoint.Client) -> None:
    """Every kind of call: unary, a stream, an upload in pieces, a model."""
    info = client.server_info()
    assert info.limits.message_bytes == MESSAGE_BYTES
    rows = sample_array(CLOUD, 32).rows
    assert np.array_equal(client.sample(CLOUD, 32).indices, rows)
    streamed = [answer.result().indices for answer in client.sample_stream([CLOUD] * 5, 32)]
    assert all(np.array_equal(indices, rows) for indices in streamed)
    assert len(streamed) == 5
    large = np.random.default_rng(1).normal(size=(200_000, 3)).astype(np.float32)
    assert large.nbytes > MESSAGE_BYTES
    expected = sample_array(large, 16).rows
    assert np.array_equal(client.sample(large, 16).indices, expected)
    assert client.list_models()[0].name in str(client.encode(CLOUD[:2000]))


def check_errors(client: farpoint.Client) -> None:
    """Their class, field and request id are those of a plain server."""
    with pytest.raises(
        farpoint.InvalidArgumentError, match="NaN, infinity or values beyond float32"
    ) as raised:
        client.sample(np.full((9, 3), np.nan, np.float32), 2)
    assert raised.value.field == "points.data"
    assert raised.value.request_id
    with pytest.raises(farpoint.NotFoundError, match="expected one that is loaded"):
        client.encode(CLOUD[:2000], model="none")
    many = np.random.default_rng(2).normal(size=(80_000, 3)).astype(np.float32)
    with pytest.raises(farpoint.DeadlineExceededError):
        client.sample(many, len(many), timeout=0.01)
    answers = list(client.sample_stream([CLOUD, CLOUD[:3], CLOUD], 32))
    assert [type(answer.error).__name__ for answer in answers] == [
        "NoneType",
        "InvalidArgumentError",
        "NoneType",
    ]
    with pytest.raises(farpoint.UnimplementedError):
        client.memory()


def check_neighbors(target: str) -> None:
    """Health and reflection."""
    with grpc.insecure_channel(target) as channel:
        health = health_pb2_grpc.HealthStub(channel)
        answer = health.Check(health_pb2.HealthCheckRequest(), timeout=60)
        assert answer.status == health_pb2.HealthCheckResponse.SERVING
        with pytest.raises(grpc.RpcError) as raised:
            next(health.Watch(health_pb2.HealthCheckRequest(), timeout=60))
        assert raised.value.code() is grpc.StatusCode.UNIMPLEMENTED
        stub = reflection_pb2_grpc.ServerReflectionStub(channel)
        asked = reflection_pb2.ServerReflectionRequest(list_services="")
        (listed,) = stub.ServerReflectionInfo(iter([asked]), timeout=60)
        symbol = reflection_pb2.ServerReflectionRequest(
            file_containing_symbol="farpoint.v1.SamplingService"
        )
        (described,) = stub.ServerReflectionInfo(iter([symbol]), timeout=60)
        assert described.file_descriptor_response.file_descriptor_proto
        names = {service.name for service in listed.list_services_response.service}
    assert {"farpoint.v1.SamplingService", "inference.GRPCInferenceService"} <= names


def test_calls_errors_a_rollout_and_more_replicas(nodes, tmp_path):
    limits = {"max_message_bytes": MESSAGE_BYTES, "encoder": ("default",)}
    nodes.deploy(limits, num_replicas=2)
    wait_until(lambda: nodes.running_replicas() == 2)
    with farpoint.Client(nodes.target, timeout=120) as client:
        check_calls(client)
        check_errors(client)
    check_neighbors(nodes.target)

    # A rollout: other settings, other processes, and no call that notices.
    before = set(nodes.processes(REPLICA))
    eager = {"target_ongoing_requests": 1, "upscale_delay_s": 1}
    with load(nodes.target) as calls:
        nodes.deploy(autoscaling_config={"min_replicas": 2, "max_replicas": 4, **eager})
        wait_until(lambda: not before & set(nodes.processes(REPLICA)))
        calls.rate(100)
        # Six callers are too many for two replicas that are meant to have one each.
        wait_until(lambda: nodes.running_replicas() > 2)
    assert calls.failures == []

    tokens = tmp_path / "tokens"
    secret = "7c1d9a52e0b84f63a5d21f908e47b6c3"
    tokens.write_text(f"robot sample {secret}\n")
    nodes.deploy({"tokens_file": tokens}, num_replicas=1)
    wait_until(lambda: nodes.running_replicas() == 1)
    with farpoint.Client(nodes.target) as client, pytest.raises(farpoint.UnauthenticatedError):
        client.sample(CLOUD, 8)
    target = f"127.0.0.1:{nodes.port}"  # a list of addresses would get no token
    with farpoint.Client(target, token=secret) as client, ThreadPoolExecutor(8) as callers:
        assert all(callers.map(lambda _: len(client.sample(CLOUD, 8)) == 8, range(40)))
