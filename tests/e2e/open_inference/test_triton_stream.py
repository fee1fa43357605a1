"""ModelStreamInfer, by NVIDIA's own client and by raw messages."""

import queue
from collections.abc import Iterator
from typing import Any

import grpc
import numpy as np
import pytest
from tests.e2e.open_inference.triton import CLOUD, fps_inputs, triton
from tests.support.servers.server_process import RunningServer

import farpoint
from farpoint.inference import open_inference_pb2 as pb
from farpoint.inference import open_inference_pb2_grpc

WAIT_S = 60


class Stream:
    """A stream of the stock client, whose answers can be waited for."""

    def __init__(self, client: Any, headers: dict[str, str] | None = None) -> None:
        self.client = client
        self._answers: queue.Queue[tuple[Any, Any]] = queue.Queue()
        client.start_stream(
            lambda result, error: self._answers.put((result, error)), headers=headers
        )

    def send(self, inputs: list[Any], **options: Any) -> None:
        self.client.async_stream_infer("fps", inputs, **options)

    def next(self) -> tuple[Any, Any]:
        return self._answers.get(timeout=WAIT_S)


@pytest.fixture
def stock(server: RunningServer) -> Iterator[Any]:
    with triton.InferenceServerClient(server.address) as client:
        yield client
        client.stop_stream()


def test_answers_come_in_the_order_of_the_requests(stock, client):
    """Whichever is done first: large clouds are between small ones."""
    clouds = [np.random.default_rng(i).random((n, 3), np.float32) for i, n in SIZES]
    stream = Stream(stock)
    for i, cloud in enumerate(clouds):
        stream.send(fps_inputs(cloud, 30), request_id=str(i))
    for i, cloud in enumerate(clouds):
        result, error = stream.next()
        assert error is None
        response = result.get_response()
        assert (response.id, response.parameters["triton_final_response"].bool_param) == (
            str(i),
            True,
        )
        np.testing.assert_array_equal(result.as_numpy("indices"), client.sample(cloud, 30).indices)


SIZES = [*enumerate([100_000, 50, 60_000, 40, 50, 80_000, 40, 30, 20_000, 30, 35, 40])]


def test_a_request_that_fails_fails_alone(stock):
    stream = Stream(stock)
    for count in (5, 301, 6):
        stream.send(fps_inputs(CLOUD, count), request_id=str(count))
    (first, no_error), (nothing, error), (last, none_either) = [stream.next() for _ in range(3)]
    assert (no_error, nothing, none_either) == (None, None, None)
    assert error.message() == (
        "inputs[sample_count][0]: expected 1 to 300, the points of cloud 0, got 301"
    )
    assert first.as_numpy("indices").shape == (2, 5)
    assert last.as_numpy("indices").shape == (2, 6)


def test_a_caller_may_have_the_stream_end_with_the_status(stock):
    stream = Stream(stock, headers={"triton_grpc_error": "true"})
    stream.send(fps_inputs(CLOUD, 5))
    stream.send(fps_inputs(CLOUD, 301))
    assert stream.next()[1] is None
    error = stream.next()[1]
    assert error.status() == "StatusCode.INVALID_ARGUMENT"
    assert error.message().startswith("inputs[sample_count][0]:")


def test_sequences_are_requests_like_others(stock):
    """The models keep nothing between requests, so the begin and the end of one mean nothing."""
    stream = Stream(stock)
    for position in range(3):
        stream.send(
            fps_inputs(CLOUD, 4),
            sequence_id=7,
            sequence_start=position == 0,
            sequence_end=position == 2,
            enable_empty_final_response=True,
        )
    answers = [stream.next()[0].as_numpy("indices").tolist() for _ in range(3)]
    assert answers[0] == answers[1] == answers[2]


async def test_the_client_of_asyncio(server: RunningServer, client: farpoint.Client):
    aio = pytest.importorskip("tritonclient.grpc.aio")

    async def requests() -> Any:
        for count in (3, 4):
            yield {"model_name": "fps", "inputs": fps_inputs(CLOUD, count)}

    async with aio.InferenceServerClient(server.address) as stock:
        assert (await stock.infer("fps", fps_inputs())).as_numpy("indices").shape == (2, 20)
        answers = [answer async for answer in stock.stream_infer(requests())]
    assert [error for _, error in answers] == [None, None]
    for count, (result, _) in zip((3, 4), answers, strict=True):
        expected = np.array([s.indices for s in client.sample(CLOUD, count)])
        np.testing.assert_array_equal(result.as_numpy("indices"), expected)


def test_a_failure_says_whose_it_is(channel: grpc.Channel):
    stub = open_inference_pb2_grpc.GRPCInferenceServiceStub(channel)
    wrong = [
        pb.ModelInferRequest(model_name="fps", id="the-id"),
        pb.ModelInferRequest(model_name="resnet", id="another"),
    ]
    first, second = stub.ModelStreamInfer(iter(wrong))
    assert first.error_message == "inputs: expected the input 'points', got none of this name"
    assert (first.infer_response.id, first.infer_response.model_name) == ("the-id", "fps")
    assert not first.infer_response.outputs
    assert second.error_message.startswith("model_name: expected one of fps")
    assert second.infer_response.id == "another"


def test_bytes_that_are_no_message_fail_alone(channel: grpc.Channel):
    stream = channel.stream_stream(
        "/inference.GRPCInferenceService/ModelStreamInfer",
        response_deserializer=pb.ModelStreamInferResponse.FromString,
    )
    good = pb.ModelInferRequest(model_name="fps", id="good")
    (first, second) = stream(iter([b"\xff\xff", good.SerializeToString()]))
    assert first.error_message.startswith("request: expected a serialized message")
    assert second.infer_response.id == "good"


def test_a_draining_server_ends_streams(start):
    server = start()
    sent: queue.Queue[pb.ModelInferRequest | None] = queue.Queue()
    with grpc.insecure_channel(server.address) as channel:
        stub = open_inference_pb2_grpc.GRPCInferenceServiceStub(channel)
        answers = stub.ModelStreamInfer(iter(sent.get, None))
        sent.put(pb.ModelInferRequest(model_name="fps"))
        assert next(answers).error_message
        assert server.stop() == 0
        with pytest.raises(grpc.RpcError) as caught:
            next(answers)
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        sent.put(None)
