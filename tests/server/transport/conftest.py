"""The clock of the transport's tests."""

from types import SimpleNamespace

import pytest


@pytest.fixture
def clock(monkeypatch):
    """`clock.s` is what time.monotonic() returns."""
    clock = SimpleNamespace(s=100.0)
    monkeypatch.setattr("time.monotonic", lambda: clock.s)
    return clock
