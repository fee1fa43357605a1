"""Replicas behind Ray Serve's gRPC proxies, through the stock client."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from tests.support.ray_cluster import REPLICA, kill, wait_until

import farpoint
from farpoint_ops.arrays import furthest_point_sample_array

pytestmark = [
    pytest.mark.timeout(900),
    # Of Ray's own modules and sockets.
    pytest.mark.filterwarnings("ignore"),
]
CLOUD = np.random.default_rng(0).normal(size=(20_000, 3)).astype(np.float32)
CALLERS, REPLICAS = 6, 4


class Load:
    """Callers that sample all the time, each answer compared with that of the op."""

    def __init__(self, target: str) -> None:
        self.times: list[float] = []
        self.failures: list[Exception] = []
        self._client = farpoint.Client(target, timeout=120)
        self._expected = furthest_point_sample_array(CLOUD, 64)
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=self._run) for _ in range(CALLERS)]
        for thread in self._threads:
            thread.start()

    def _run(self) -> None:
        while not self._ended.is_set():
            self._call()

    def _call(self) -> None:
        try:
            sample = self._client.sample(CLOUD, 64)
            assert np.array_equal(sample.indices, self._expected)
        except Exception as error:
            self.failures.append(error)
        else:
            self.times.append(time.monotonic())

    def rate(self, calls: int = 300) -> float:
        """Calls a second, over so many from now on."""
        begun, before = time.monotonic(), len(self.times)
        wait_until(lambda: len(self.times) >= before + calls or self.failures)
        return calls / (time.monotonic() - begun)

    def close(self) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()
        self._client.close()


@contextmanager
def load(target: str) -> Iterator[Load]:
    running = Load(target)
    try:
        yield running
    finally:
        running.close()


def test_no_call_is_lost_with_a_replica_and_then_a_node(nodes):
    replicas = ("--ray-min-replicas", str(REPLICAS), "--ray-max-replicas", str(REPLICAS))
    nodes.deploy(*replicas)
    wait_until(lambda: nodes.running_replicas() == REPLICAS)
    with load(nodes.target) as calls:
        before = calls.rate()

        first = set(nodes.processes(REPLICA))
        kill(min(first))
        wait_until(lambda: len(set(nodes.processes(REPLICA)) | first) > REPLICAS)
        wait_until(lambda: nodes.running_replicas() == REPLICAS)
        replaced = calls.rate()

        nodes.kill_node()
        wait_until(lambda: nodes.running_replicas() == REPLICAS // 2)
        survived = calls.rate()
    print(f"calls/s: {before:.0f}, {replaced:.0f} with a new replica, {survived:.0f} on one node")
    assert calls.failures == []
    assert len(calls.times) > 900
    # Both nodes share the cores of this machine, so one alone does about as much.
    assert replaced > before / 3
    assert survived > before / 3
