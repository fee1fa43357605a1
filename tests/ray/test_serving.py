"""Replicas behind Ray Serve's gRPC proxies, through the stock client."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from tests.support.ray_cluster import REPLICA, kill, wait_until

import farpoint
from farpoint_ops.arrays import sample_array

pytestmark = [
    pytest.mark.timeout(900),
    # Of Ray's own modules and sockets.
    pytest.mark.filterwarnings("ignore"),
]
CLOUD = np.random.default_rng(0).normal(size=(20_000, 3)).astype(np.float32)
# So much work that every replica is at some of it when it dies.
LARGE, MANY = np.random.default_rng(1).normal(size=(80_000, 3)).astype(np.float32), 40_000
CALLERS, REPLICAS = 6, 4


class Load:
    """Callers that sample all the time, each answer compared with that of the op."""

    def __init__(self, target: str, cloud: np.ndarray, m: int) -> None:
        self.times: list[float] = []
        self.failures: list[Exception] = []
        self._client = farpoint.Client(target, timeout=120)
        self._cloud, self._m = cloud, m
        self._expected = sample_array(cloud, m).rows
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=self._run) for _ in range(CALLERS)]
        for thread in self._threads:
            thread.start()

    def _run(self) -> None:
        while not self._ended.is_set():
            self._call()

    def _call(self) -> None:
        try:
            sample = self._client.sample(self._cloud, self._m)
            assert np.array_equal(sample.indices, self._expected)
        except Exception as error:
            self.failures.append(error)
        else:
            self.times.append(time.monotonic())

    def rate(self, calls: int) -> float:
        """Calls a second, over so many from now on."""
        begun, before = time.monotonic(), len(self.times)
        wait_until(lambda: len(self.times) >= before + calls)
        return calls / (time.monotonic() - begun)

    def close(self) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()
        self._client.close()


@contextmanager
def load(target: str, cloud: np.ndarray = CLOUD, m: int = 64) -> Iterator[Load]:
    running = Load(target, cloud, m)
    try:
        yield running
    finally:
        running.close()


def test_calls_go_on_without_a_replica_and_then_without_a_node(nodes):
    nodes.deploy(num_replicas=REPLICAS)
    wait_until(lambda: nodes.running_replicas() == REPLICAS)
    with load(nodes.target, LARGE, MANY) as calls:
        before = calls.rate(40)

        first = set(nodes.processes(REPLICA))
        kill(min(first))
        wait_until(lambda: len(set(nodes.processes(REPLICA)) | first) > REPLICAS)
        wait_until(lambda: nodes.running_replicas() == REPLICAS)
        replaced = calls.rate(40)

        nodes.kill_node()
        wait_until(lambda: nodes.running_replicas() == REPLICAS // 2)
        survived = calls.rate(40)
    print(f"calls/s: {before:.0f}, {replaced:.0f} with a new replica, {survived:.0f} on one node")
    # Of a replica or a proxy that dies, the calls that were at it: Ray repeats none.
    assert len(calls.failures) <= 2 * CALLERS
    assert {type(error) for error in calls.failures} <= {
        farpoint.InternalError,
        farpoint.UnavailableError,
    }
    assert len(calls.times) >= 120
    # Both nodes share the cores of this machine, so one alone does about as much.
    assert replaced > before / 3
    assert survived > before / 3
