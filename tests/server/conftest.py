"""The batcher of the tests, over the engine of each module."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from farpoint_server.scheduling.batcher import Batcher


@pytest.fixture
async def batcher(engine: Any) -> AsyncIterator[Batcher]:
    batcher = Batcher(engine, batch_points=100)
    batcher.start()
    yield batcher
    await batcher.stop()
