"""Bounds on connections and on the calls of one connection."""

import time
from concurrent.futures import ThreadPoolExecutor

import grpc
import numpy as np
import pytest

import farpoint
from farpoint.v1 import sampling_pb2, sampling_pb2_grpc

CLOUD = np.zeros((1000, 3), np.float32)
OWN = [("grpc.use_local_subchannel_pool", 1)]


def test_a_connection_too_many_is_closed_and_its_place_can_be_taken_later(start):
    server = start("--max-connections", "2")
    ask = sampling_pb2.GetServerInfoRequest()
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


def test_calls_beyond_the_streams_of_a_connection_wait_in_the_client(start):
    server = start("--max-streams", "2", batch_s=0.3)
    # The server may count a stream that the client has seen end, and refuse the next one;
    # the package's client repeats such a call, so no caller notices.
    with farpoint.Client(server.address) as client, ThreadPoolExecutor(6) as pool:
        client.server_info()
        begun = time.monotonic()
        results = list(pool.map(lambda _: client.sample(CLOUD, 1), range(6)))
        # Without the bound all share a batch, or wait for one batch at most.
        assert time.monotonic() - begun > 0.8
    assert all(len(result.indices) == 1 for result in results)
