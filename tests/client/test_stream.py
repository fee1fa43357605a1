"""Streams: answers in order, failures of single clouds, large requests in pieces."""

import numpy as np
import pytest

import farpoint

RANDOM = np.random.default_rng(4)
SIZES = [20, 13, 500, 7]


def clouds():
    return [RANDOM.normal(size=(size, 3)).astype(np.float32) for size in SIZES]


async def streamed(target, sent, *arguments, **options):
    async with farpoint.AsyncClient(target) as client:
        return [item async for item in client.sample_stream(sent, *arguments, **options)]


def test_a_wrong_cloud_is_answered_in_its_place_and_not_sent(client, server):
    good, flat = clouds()[2], np.zeros(7)
    items = list(client.sample_stream([flat, good, [good, good], flat, good, good[:4]], 5))
    failed = [item.error is not None for item in items]
    assert failed == [True, False, True, True, False, True]
    assert [item.index for item in items] == list(range(6))
    assert items[2].error.field == "points.shape"
    assert items[5].error.field == "sample_counts[0]"
    assert len(server.requests) == 2


def test_dropped_clouds_are_gaps(client):
    sent = clouds() * 3
    items = list(client.sample_stream(sent, 5, latest_only=True))
    assert [item.index for item in items] == [1, 3, 5, 7, 9, 11]
    for item in items:
        if item.sample is not None:
            np.testing.assert_array_equal(item.sample.points, sent[item.index][item.sample.indices])


def broken():
    yield clouds()[0]
    raise KeyError("the sensor")


async def test_an_exception_of_the_clouds_is_raised_after_the_answers(client, server):
    items = client.sample_stream(broken(), 5)
    assert next(items).index == 0
    with pytest.raises(KeyError, match="the sensor"):
        next(items)
    with pytest.raises(KeyError, match="the sensor"):
        await streamed(server.target, broken(), 5)


def test_a_server_that_ends_the_stream_early_is_an_error(client, server):
    server.stream_ends_at = 1
    items = client.sample_stream(clouds(), 5)
    assert next(items).index == 0
    with pytest.raises(farpoint.InternalError, match="ended the stream early"):
        list(items)


def test_a_stream_that_is_not_read_to_its_end_is_ended(client):
    def endless():
        while True:
            yield clouds()[0]

    items = client.sample_stream(endless(), 5)
    assert next(items).index == 0
    items.close()
    assert len(client.sample(clouds()[0], 5)) == 5


def test_an_empty_stream_has_no_answers_and_a_wrong_argument_is_an_error_at_once(client):
    assert list(client.sample_stream([], 5)) == []
    with pytest.raises(farpoint.InvalidArgumentError, match="nonfinite"):
        client.sample_stream([], 5, nonfinite="maybe")


def test_a_server_that_is_not_there_is_unavailable():
    with farpoint.Client("127.0.0.1:1") as client, pytest.raises(farpoint.UnavailableError):
        next(client.sample_stream(clouds(), 5))


CLOUD = np.random.default_rng(3).normal(size=(200_000, 3)).astype(np.float32)


@pytest.fixture(autouse=True)
def limit(server):
    server.message_bytes = 2 << 20


def test_a_request_above_the_limit_is_sent_in_pieces_below_it(client, server):
    sample = client.sample([CLOUD, CLOUD[:9]], [5, 2], start=3)[0]
    assert sum(server.pieces) == 200_009 * 12
    assert max(server.pieces) <= 1 << 20
    assert len(server.requests) == 1
    np.testing.assert_array_equal(sample.points, CLOUD[sample.indices])
    assert sample.indices[0] == 3


def test_a_request_below_the_limit_is_one_message(client, server):
    client.sample(CLOUD[:150_000], 2)
    assert server.pieces == []


async def test_the_async_client_uploads_too(client, server):
    expected = client.sample(CLOUD, 5)
    async with farpoint.AsyncClient(server.target) as twin:
        server.pieces = []
        sample = await twin.sample(CLOUD, 5)
    assert sum(server.pieces) == CLOUD.nbytes
    np.testing.assert_array_equal(sample.indices, expected.indices)
