"""The environment of every test, and of the processes that it starts; markers by folder."""

import os
from pathlib import Path

import pytest

# Test files run side by side. Threads of OpenMP spin while they wait for work by default, which
# takes the cores of the other file: training took ten times as long.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

TESTS = Path(__file__).parent
SLOW_TIMEOUT_S = 900


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        folder = item.path.relative_to(TESTS).parts[0]
        if folder in ("gpu", "web"):
            item.add_marker("gpu" if folder == "gpu" else "browser")
        if item.get_closest_marker("slow") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(SLOW_TIMEOUT_S))
        if folder == "softgpu":  # `make gpu-soft` runs these
            item.add_marker("slow")
