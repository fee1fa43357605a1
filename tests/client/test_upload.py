"""Requests above the server's message limit."""

import numpy as np
import pytest

import farpoint

CLOUD = np.random.default_rng(3).normal(size=(200_000, 3)).astype(np.float32)


@pytest.fixture(autouse=True)
def limit(server):
    server.message_bytes = 2 << 20


def test_what_is_above_the_limit_is_sent_in_pieces_below_it(client, server):
    sample = client.sample([CLOUD, CLOUD[:9]], [5, 2], start=3)[0]
    assert sum(server.pieces) == 200_009 * 12
    assert max(server.pieces) <= 1 << 20
    assert len(server.requests) == 1
    np.testing.assert_array_equal(sample.points, CLOUD[sample.indices])
    assert sample.indices[0] == 3


def test_what_is_below_the_limit_is_one_message(client, server):
    client.sample(CLOUD[:150_000], 2)
    assert server.pieces == []


async def test_the_async_client_does_the_same(client, server):
    expected = client.sample(CLOUD, 5)
    async with farpoint.AsyncClient(server.target) as twin:
        server.pieces = []
        sample = await twin.sample(CLOUD, 5)
    assert sum(server.pieces) == CLOUD.nbytes
    np.testing.assert_array_equal(sample.indices, expected.indices)
