"""The clock of the tests, and their batcher over the engine of each module."""

from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from farpoint_server.scheduling.batcher import Batcher


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """`clock.s` is what time.monotonic() returns."""
    clock = SimpleNamespace(s=100.0)
    monkeypatch.setattr("time.monotonic", lambda: clock.s)
    return clock


@pytest.fixture
async def batcher(engine: Any) -> AsyncIterator[Batcher]:
    batcher = Batcher(engine, batch_points=100)
    batcher.start()
    yield batcher
    await batcher.stop()
