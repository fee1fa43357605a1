"""When a client asks for checksums, and what it makes of answers with and without them."""

import pickle

import grpc
import numpy as np
import pytest

import farpoint
from farpoint.v1 import sampling_pb2 as pb

CLOUD = np.arange(30, dtype=np.float32).reshape(10, 3)


LOCAL = {"credentials": grpc.local_channel_credentials()}


@pytest.mark.parametrize(
    ("options", "asked"),
    [({}, True), ({"checksums": False}, False), (LOCAL, False)],
    ids=["plain text", "declined", "a connection that finds damage"],
)
def test_checksums_are_asked_for_where_nothing_else_finds_damage(server, options, asked):
    with farpoint.Client(server.target, **options) as client:
        client.sample(CLOUD, 2)
        list(client.sample_stream([CLOUD], 2))
    assert [request.return_checksums for request in server.requests] == [asked] * 2


def test_a_server_that_knows_none_is_older_unless_they_are_required(server):
    with farpoint.Client(server.target) as client:
        assert len(client.sample(CLOUD, 2).indices) == 2
    strict = pickle.loads(pickle.dumps(farpoint.Client(server.target, checksums=True)))
    with strict, pytest.raises(farpoint.DataLossError, match="without the checksums"):
        strict.sample(CLOUD, 2)


def test_one_that_does_not_fit_is_an_error_also_where_none_was_asked_for(server, client):
    client.sample(CLOUD, 2)
    server.answer = pb.SampleResponse()
    server.answer.CopyFrom(server.sampled(server.requests[0]))
    server.answer.distances.crc32c = 1
    with pytest.raises(farpoint.DataLossError, match="checksum of 8 bytes does not fit"):
        client.sample(CLOUD, 2)


def test_data_loss_that_a_proxy_reports_is_the_same_error(server, client):
    server.fail(grpc.StatusCode.DATA_LOSS)
    with pytest.raises(farpoint.DataLossError):
        client.sample(CLOUD, 2)
