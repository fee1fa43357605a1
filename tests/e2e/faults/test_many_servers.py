"""Several servers behind one client: one is killed, one hangs, under load; no call is lost."""

import asyncio
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from tests.support.clouds import furthest_points
from tests.support.servers.server_process import RunningServer

import farpoint
from farpoint._connection import channel as connections

CALLERS = 12
CLOUD = np.random.default_rng(5).normal(size=(600, 3)).astype(np.float32)
M = 16
EXPECTED = furthest_points(CLOUD, M).tolist()
# A hung server is noticed in two seconds here instead of twenty.
FAST = {
    "grpc.keepalive_time_ms": 1_000,
    "grpc.keepalive_timeout_ms": 1_000,
    "grpc.http2.ping_timeout_ms": 1_000,
}


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    options = {**dict(connections.OPTIONS), **FAST}
    monkeypatch.setattr(connections, "OPTIONS", tuple(options.items()))


class Load:
    """Callers that never pause; each knows the right answer."""

    def __init__(self) -> None:
        self.ended: Counter[str] = Counter()
        self.stop = False
        self._changed = threading.Condition()

    def count(self, ended: object) -> None:
        if isinstance(ended, farpoint.Sample):
            ended = "right" if ended.indices.tolist() == EXPECTED else "wrong"
        with self._changed:
            self.ended[str(ended)] += 1
            self._changed.notify_all()

    def wait_for_more(self, calls: int) -> None:
        """Returns after so many further calls."""
        with self._changed:
            goal = self.ended.total() + calls
            assert self._changed.wait_for(lambda: self.ended.total() >= goal, 60), self.ended

    def sync(self, servers: list[str]) -> None:
        def call(_: int) -> None:
            try:
                while not self.stop:
                    self.count(client.sample(CLOUD, M))
            except farpoint.FarpointError as error:
                self.count(error)

        with farpoint.Client(servers) as client, ThreadPoolExecutor(CALLERS) as callers:
            list(callers.map(call, range(CALLERS)))

    async def asyncio(self, servers: list[str]) -> None:
        async def call(client: farpoint.AsyncClient) -> None:
            try:
                while not self.stop:
                    self.count(await client.sample(CLOUD, M))
            except farpoint.FarpointError as error:
                self.count(error)

        async with farpoint.AsyncClient(servers) as client:
            await asyncio.gather(*(call(client) for _ in range(CALLERS)))


@pytest.fixture(scope="module")
def servers() -> Iterator[list[RunningServer]]:
    """Three, of which two are lost."""
    with ThreadPoolExecutor(3) as starting:
        running = list(starting.map(lambda _: RunningServer(), range(3)))
    yield running
    for server in running:
        server.process.kill()  # one that is stopped would not end by itself
        server.wait()


def test_no_call_is_lost_when_one_of_three_is_killed_and_one_hangs(servers):
    load, addresses = Load(), [server.address for server in servers]
    clients = [
        threading.Thread(target=load.sync, args=[addresses]),
        threading.Thread(target=lambda: asyncio.run(load.asyncio(addresses))),
    ]
    before = [requests_of(server) for server in servers]
    for client in clients:
        client.start()
    try:
        load.wait_for_more(30 * CALLERS)
        assert all(requests_of(s) > n for s, n in zip(servers, before, strict=True))
        servers[1].signal(signal.SIGKILL)
        load.wait_for_more(30 * CALLERS)
        servers[2].signal(signal.SIGSTOP)
        load.wait_for_more(100 * CALLERS)
    finally:
        load.stop = True
        for client in clients:
            client.join()
    assert set(load.ended) == {"right"}


def requests_of(server: RunningServer) -> int:
    """Small requests that it has logged."""
    return sum(line["event"] == "request" and line.get("points") == 600 for line in server.log)
