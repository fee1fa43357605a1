"""Two nodes of Ray; `make ray-test` installs it and runs these tests, which take minutes."""

from collections.abc import Iterator
from typing import Any

import pytest

CORES = 2


@pytest.fixture
def nodes() -> Iterator[Any]:
    """A cluster of its own for each test: what is killed stays dead."""
    from tests.support.ray_cluster import TwoNodes

    nodes = TwoNodes(CORES)
    try:
        yield nodes
    finally:
        nodes.close()
