"""Many callers at once: own answers, bounded work, kept deadlines."""

from concurrent.futures import ThreadPoolExecutor

import grpc
import numpy as np
import pytest
from tests.support.brute_force import furthest_points
from tests.support.messages import details, sample_request

import farpoint

RANDOM = np.random.default_rng(3)
CLOUD = RANDOM.normal(size=(1000, 3)).astype(np.float32)


def test_each_of_many_callers_gets_its_own_answer(client):
    sizes = [1, 2, 17, 300, 1024, 5000] * 8
    clouds = [RANDOM.normal(size=(size, 3)).astype(np.float32) for size in sizes]

    def sample(i: int) -> list[int]:
        return client.sample(clouds[i], min(20, sizes[i]), start=i % sizes[i]).indices.tolist()

    with ThreadPoolExecutor(16) as callers:
        answers = list(callers.map(sample, range(len(clouds))))
    for i, answer in enumerate(answers):
        assert answer == furthest_points(clouds[i], min(20, sizes[i]), i % sizes[i]).tolist()


def test_what_does_not_fit_is_refused_at_once_and_told_when_to_retry(start):
    flags = ["--max-points-in-flight", "2000", "--max-request-points", "2000"]
    flags += ["--overload-retry-ms", "70", "--http-listen", "127.0.0.1:0"]
    server = start(*flags, batch_s=60)
    with server.connected() as stub, farpoint.Client(server.address) as client:
        busy = [stub.Sample.future(sample_request(CLOUD, 9)) for _ in range(2)]
        server.wait_for_metric("farpoint_points_in_flight", lambda points: points == 2000)
        with pytest.raises(grpc.RpcError) as caught:
            stub.Sample(sample_request(CLOUD[:1], 1))
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        (retry_info,) = details(caught.value)
        assert retry_info.retry_delay.ToMilliseconds() == 70
        with pytest.raises(farpoint.ResourceExhaustedError) as caught:
            client.sample(CLOUD[:1], 1)
        assert caught.value.retry_after_s == 0.07
        assert not any(call.done() for call in busy)
