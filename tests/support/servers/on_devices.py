"""Servers on devices of a test's choice, and small clouds whose samples are known."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from tests.support.clouds import furthest_points
from tests.support.servers import server_process
from tests.support.servers.server_process import RunningServer

import farpoint

_RANDOM = np.random.default_rng(5)
CLOUDS = [_RANDOM.random((n, 3), np.float32) for n in (40, 300, 700, 1100)]
EXPECTED = [furthest_points(cloud, 12).tolist() for cloud in CLOUDS]
Start = Callable[..., RunningServer]


@contextmanager
def starting(monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Starts servers with flags on a device, by default the first GPU; ends them."""
    servers = []

    def start(*flags: str, device: str = "cuda:0") -> RunningServer:
        monkeypatch.setattr(server_process, "DEVICE", device)
        servers.append(RunningServer(*flags))
        return servers[-1]

    yield start
    for server in servers:
        server.process.kill()
        server.wait()


def sample_all(client: farpoint.Client, times: int = 1) -> None:
    """Samples CLOUDS and compares."""
    for _ in range(times):
        for cloud, expected in zip(CLOUDS, EXPECTED, strict=True):
            assert client.sample(cloud, 12).indices.tolist() == expected
