"""Servers that are restarted, killed or hang under load: no call fails."""

import asyncio
import http.client
import re
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from tests.support.clouds import furthest_points
from tests.support.messages import sample_request
from tests.support.servers.server_process import RunningServer

import farpoint
from farpoint._connection import channel as connections
from farpoint.v1 import sampling_pb2 as pb

CLOUD = np.random.default_rng(5).normal(size=(600, 3)).astype(np.float32)
EXPECTED = furthest_points(CLOUD, 16).tolist()
REQUEST = sample_request(CLOUD, 16).SerializeToString()
SAMPLE = "/farpoint.v1.SamplingService/Sample"
CALLS_BETWEEN = 150
DOCS = Path(__file__).parents[3] / "docs" / "clients.md"
# The service config that the page gives to users of stock clients.
[CONFIG] = re.findall(r"```json\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
# Of a channel with a connection of its own, as if it were in a process of its own.
ALONE = [("grpc.use_local_subchannel_pool", 1)]
# A hung server is noticed in two seconds here instead of twenty.
FAST = {
    "grpc.keepalive_time_ms": 1_000,
    "grpc.keepalive_timeout_ms": 1_000,
    "grpc.http2.ping_timeout_ms": 1_000,
}


class Fleet:
    """Servers that keep their addresses when they are restarted, and how calls to them ended."""

    def __init__(self, servers: int, *flags: str) -> None:
        self._flags = flags
        self.ports = [(free_port(), free_port()) for _ in range(servers)]
        self.targets = [f"127.0.0.1:{port}" for port, _ in self.ports]
        with ThreadPoolExecutor(servers) as starting:
            self.servers = list(starting.map(self._start, range(servers)))
        self.ended: Counter[tuple[str, str]] = Counter()
        self.is_over = False
        self._changed = threading.Condition()

    def wait_for_calls(self, calls: int) -> None:
        """Returns after some further calls."""
        with self._changed:
            goal = self.ended.total() + calls
            assert self._changed.wait_for(lambda: self.ended.total() >= goal, 60), self.ended

    def restart(self, place: int) -> None:
        """Under load: after some calls."""
        self.wait_for_calls(CALLS_BETWEEN)
        server = self.servers[place]
        server.signal(signal.SIGTERM)
        assert server.wait() == 0
        stopped = server.wait_for(lambda line: line["event"] == "stopped")
        assert stopped.get("unanswered", 0) == 0
        self.servers[place] = self._start(place)

    def count(self, kind: str, how: str) -> None:
        with self._changed:
            self.ended[kind, how] += 1
            self._changed.notify_all()

    @contextmanager
    def counting(self, kind: str) -> Iterator[Callable[[list[int]], None]]:
        """A block for one call, with a function that judges its rows."""
        try:
            yield lambda rows: self.count(kind, "right" if rows == EXPECTED else "wrong")
        except Exception as error:
            self.count(kind, f"{type(error).__name__}: {error}")

    def repeat(self, kind: str, call: Callable[[], list[int]]) -> None:
        while not self.is_over:
            with self.counting(kind) as judge:
                judge(call())

    async def repeat_async(self, kind: str, call: Callable[[], Awaitable[list[int]]]) -> None:
        while not self.is_over:
            with self.counting(kind) as judge:
                judge(await call())

    def close(self) -> None:
        for server in self.servers:
            server.process.kill()  # one that is stopped would not end by itself
            server.wait()

    def _start(self, place: int) -> RunningServer:
        grpc_port, http_port = self.ports[place]
        ports = f"--listen=127.0.0.1:{grpc_port}", f"--http-listen=127.0.0.1:{http_port}"
        return RunningServer(*ports, "--encoder=none", *self._flags)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def rows(answer: bytes) -> list[int]:
    indices = pb.SampleResponse.FromString(answer).indices
    return np.frombuffer(indices.data, "<i4").tolist()


def our_client(fleet: Fleet) -> None:
    with farpoint.Client(fleet.targets) as client:
        fleet.repeat("Client", lambda: client.sample(CLOUD, 16).indices.tolist())


def our_stream(fleet: Fleet) -> None:
    """Each of one cloud, so that a drain meets its begin."""

    def sample() -> list[int]:
        [answer] = client.sample_stream([CLOUD], 16)
        return answer.sample.indices.tolist()

    with farpoint.Client(fleet.targets) as client:
        fleet.repeat("stream", sample)


def our_async_client(fleet: Fleet) -> None:
    async def run() -> None:
        async def sample() -> list[int]:
            return (await client.sample(CLOUD, 16)).indices.tolist()

        async with farpoint.AsyncClient(fleet.targets) as client:
            await fleet.repeat_async("AsyncClient", sample)

    asyncio.run(run())


def stock_client(fleet: Fleet) -> None:
    options = [*ALONE, ("grpc.service_config", CONFIG)]
    with grpc.insecure_channel(f"ipv4:{','.join(fleet.targets)}", options) as channel:
        call = channel.unary_unary(SAMPLE)
        fleet.repeat("grpcio", lambda: rows(call(REQUEST, timeout=60)))


def stock_async_client(fleet: Fleet) -> None:
    options = [*ALONE, ("grpc.service_config", CONFIG)]

    async def run() -> None:
        async def sample() -> list[int]:
            return rows(await call(REQUEST, timeout=60))

        target = f"ipv4:{','.join(fleet.targets)}"
        async with grpc.aio.insecure_channel(target, options) as channel:
            call = channel.unary_unary(SAMPLE)
            await fleet.repeat_async("grpc.aio", sample)

    asyncio.run(run())


def http_client(fleet: Fleet) -> None:
    """Keeps its connection while the server does, then takes another, of any server."""
    connections: list[http.client.HTTPConnection] = []

    def connected() -> http.client.HTTPConnection:
        for place in range(1 << 20):
            port = fleet.ports[place % len(fleet.ports)][1]
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            try:
                connection.connect()
                return connection
            except ConnectionRefusedError:
                time.sleep(0.01)
        raise AssertionError

    def sample() -> list[int]:
        if not connections or connections[0].sock is None:
            connections[:] = [connected()]
        headers: dict[str, Any] = {"Content-Type": "application/proto"}
        connections[0].request("POST", SAMPLE, REQUEST, headers)
        answer = connections[0].getresponse()
        body = answer.read()
        assert answer.status == 200, (answer.status, body)
        return rows(body)

    fleet.repeat("HTTP", sample)
    connections[0].close()


CALLERS = {
    "Client": our_client,
    "stream": our_stream,
    "AsyncClient": our_async_client,
    "grpcio": stock_client,
    "grpc.aio": stock_async_client,
    "HTTP": http_client,
}


@contextmanager
def under_load(
    servers: int, *flags: str, kinds: Iterable[str] = CALLERS, of_a_kind: int = 3
) -> Iterator[Fleet]:
    fleet = Fleet(servers, *flags)
    callers = [CALLERS[kind] for kind in kinds] * of_a_kind
    threads = [threading.Thread(target=caller, args=(fleet,)) for caller in callers]
    for thread in threads:
        thread.start()
    try:
        yield fleet
    finally:
        fleet.is_over = True
        for thread in threads:
            thread.join()
        fleet.close()


@pytest.mark.parametrize(
    ("servers", "flags", "drains"),
    [
        (1, (), 2),
        (2, (), 2),
        pytest.param(1, ("--processes=2",), 2, marks=pytest.mark.slow),
        pytest.param(2, ("--processes=2",), 4, marks=pytest.mark.slow),
    ],
)
def test_no_call_fails_when_servers_are_restarted_under_load(servers, flags, drains):
    with under_load(servers, *flags) as fleet:
        for drain in range(drains):
            fleet.restart(drain % servers)
    assert {how for _, how in fleet.ended} == {"right"}, fleet.ended
    assert {kind for kind, _ in fleet.ended} == set(CALLERS)


def test_no_call_is_lost_when_one_of_three_is_killed_and_one_hangs(monkeypatch):
    options = {**dict(connections.OPTIONS), **FAST}
    monkeypatch.setattr(connections, "OPTIONS", tuple(options.items()))
    with under_load(3, kinds=("Client", "AsyncClient"), of_a_kind=12) as fleet:
        for server in fleet.servers:
            server.wait_for(lambda line: line["event"] == "request")
        fleet.servers[1].signal(signal.SIGKILL)
        fleet.wait_for_calls(800)
        fleet.servers[2].signal(signal.SIGSTOP)
        fleet.wait_for_calls(2400)
    assert {how for _, how in fleet.ended} == {"right"}, fleet.ended
