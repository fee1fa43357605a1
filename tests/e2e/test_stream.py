"""SampleStream and SampleLarge against a real server."""

import asyncio
import threading
import time

import grpc
import numpy as np
import pytest
from tests.support.clouds import furthest_points
from tests.support.messages import sample_request, tensor

import farpoint
from farpoint.v1 import sampling_pb2 as pb
from farpoint.v1 import tensor_pb2

RANDOM = np.random.default_rng(8)
CLOUDS = [RANDOM.normal(size=(int(n), 3)).astype(np.float32) for n in RANDOM.integers(20, 900, 40)]
SLOW = RANDOM.normal(size=(1000, 3)).astype(np.float32)  # see patched_server.py


def stream_request(cloud: np.ndarray, m: int, **fields) -> pb.SampleStreamRequest:
    return pb.SampleStreamRequest(request=sample_request(cloud, m), **fields)


def test_a_stream_is_answered_in_order_and_goes_on_after_a_failure(client):
    sent = list(CLOUDS)
    sent[7] = np.full((30, 3), np.nan, np.float32)
    items = list(client.sample_stream(sent, 15, start=2))
    assert [item.index for item in items] == list(range(40))
    for item, cloud in zip(items, sent, strict=True):
        if item.index == 7:
            assert isinstance(item.error, farpoint.InvalidArgumentError)
            assert item.error.field == "points.data"
        else:
            assert item.result().indices.tolist() == furthest_points(cloud, 15, 2).tolist()


async def test_clouds_are_answered_while_more_are_still_to_come(server):
    answered = asyncio.Event()

    async def sensor():
        yield CLOUDS[0]
        await asyncio.wait_for(answered.wait(), 20)
        yield CLOUDS[1]

    async with farpoint.AsyncClient(server.address) as client:
        async for item in client.sample_stream(sensor(), 5):
            item.result()
            answered.set()
    assert item.index == 1


def test_bytes_that_are_not_a_request_and_an_empty_stream_request_fail_alone(channel):
    call = channel.stream_stream(
        "/farpoint.v1.SamplingService/SampleStream",
        response_deserializer=pb.SampleStreamResponse.FromString,
    )
    good = stream_request(CLOUDS[0], 5).SerializeToString()
    codes = [answer.error.code for answer in call(iter([b"\xff", good, b"", good]))]
    assert codes == [3, 0, 3, 0]


def test_a_slow_reader_slows_the_sender_down(start):
    server = start()
    taken = 0

    def sensor():
        nonlocal taken
        for _ in range(2000):
            taken += 1
            yield stream_request(CLOUD_OF_240_KB, CLOUD_OF_240_KB.shape[0])

    with server.connected() as stub:
        answers = stub.SampleStream(sensor())
        next(answers)
        held, give_up = -1, time.monotonic() + 60
        while taken != held and time.monotonic() < give_up:
            held = taken
            time.sleep(1)
        assert taken == held < 1000
        answers.cancel()


CLOUD_OF_240_KB = RANDOM.normal(size=(20_000, 3)).astype(np.float32)


def test_a_sensor_faster_than_the_server_gets_its_latest_cloud_answered(start):
    server = start(batch_s=0.3)
    sent_last = threading.Event()

    def sensor():
        for i in range(100):
            cloud = SLOW.copy()
            cloud[0, 0] = i
            yield stream_request(cloud, 1, mode=pb.STREAM_MODE_LATEST)
            time.sleep(0.01)
        sent_last.set()

    with server.connected() as stub:
        answers = list(stub.SampleStream(sensor()))
    indices = [answer.request_index for answer in answers]
    assert indices == sorted(set(indices))
    assert (indices[0], indices[-1]) == (0, 99)
    assert len(indices) < 50
    assert all(answer.HasField("response") for answer in answers)


HEAD = pb.SampleRequest(
    points=tensor_pb2.Tensor(data_type=tensor_pb2.DATA_TYPE_FLOAT32, shape=[4, 3]),
    sample_counts=[2],
)
DATA = pb.SampleLargeRequest(points_data=tensor(CLOUDS[0][:4]).data)
HALF = pb.SampleLargeRequest(points_data=DATA.points_data[:24])
FIRST = pb.SampleLargeRequest(request=HEAD)
FULL = pb.SampleLargeRequest(request=sample_request(CLOUDS[0], 1))
FAR_TOO_LARGE = pb.SampleLargeRequest(request=HEAD)
FAR_TOO_LARGE.request.points.shape[0] = 1 << 40
MALFORMED = {
    "nothing": ([], "part"),
    "data first": ([DATA], "part"),
    "an empty message": ([pb.SampleLargeRequest()], "part"),
    "two requests": ([FIRST, FIRST], "part"),
    "too little": ([FIRST, HALF], "points_data"),
    "too much": ([FIRST, DATA, HALF], "points_data"),
    "data in the request": ([FULL], "request.points.data"),
    "more than fits": ([FAR_TOO_LARGE], "points.shape"),
}


def test_pieces_of_any_size_are_one_request(stub):
    pieces = [pb.SampleLargeRequest(points_data=bytes([b])) for b in DATA.points_data[:24]]
    whole = stub.SampleLarge(iter([FIRST, *pieces, pb.SampleLargeRequest(points_data=b""), REST]))
    expected = stub.Sample(sample_request(CLOUDS[0][:4], 2))
    assert whole.response.indices == expected.indices


REST = pb.SampleLargeRequest(points_data=DATA.points_data[24:])


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_pieces_are_named(stub, name):
    pieces, field = MALFORMED[name]
    with pytest.raises(grpc.RpcError) as caught:
        stub.SampleLarge(iter(pieces))
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert caught.value.details().startswith(f"{field}: ")
