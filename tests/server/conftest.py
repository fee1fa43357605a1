"""The clock of the tests, and their scheduler over the engine of each module."""

from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from farpoint_server.compute.scheduler import DeviceScheduler


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """`clock.s` is what time.monotonic() returns."""
    clock = SimpleNamespace(s=100.0)
    monkeypatch.setattr("time.monotonic", lambda: clock.s)
    return clock


@pytest.fixture
async def scheduler(engine: Any) -> AsyncIterator[DeviceScheduler]:
    scheduler = DeviceScheduler(engine, batch_points=100)
    scheduler.start()
    yield scheduler
    await scheduler.stop()
