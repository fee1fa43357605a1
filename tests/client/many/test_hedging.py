"""Small calls that take long are asked of a further server; other calls never are."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent import futures

import grpc
import numpy as np
import pytest
from tests.client.conftest import NumpyServer

import farpoint
from farpoint._balancing import hedging
from farpoint.v1 import sampling_pb2_grpc

SOON_S = 0.05


@pytest.fixture
def start() -> Iterator[Callable[[], NumpyServer]]:
    """Starts servers; those that hold their answers let them go in the end."""
    running: list[tuple[NumpyServer, grpc.Server]] = []

    def start() -> NumpyServer:
        servicer, server = NumpyServer(), grpc.server(futures.ThreadPoolExecutor(16))
        sampling_pb2_grpc.add_SamplingServiceServicer_to_server(servicer, server)
        servicer.target = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
        server.start()
        running.append((servicer, server))
        return servicer

    yield start
    for servicer, server in running:
        if servicer.hold:
            servicer.hold.set()
        server.stop(None).wait()


@pytest.fixture
def hung(start) -> NumpyServer:
    """Never answers."""
    server = start()
    server.hold = threading.Event()
    return server


def sample_all(kind, target, cloud, count, **settings) -> list[object]:
    """What so many calls end with, one after the other."""
    if kind is farpoint.Client:
        with farpoint.Client(target, timeout=20, **settings) as client:
            return [outcome(lambda: client.sample(cloud, 5)) for _ in range(count)]

    async def run() -> list[object]:
        async with farpoint.AsyncClient(target, timeout=20, **settings) as client:
            calls = [client.sample(cloud, 5) for _ in range(count)]
            return [await asyncio.gather(call, return_exceptions=True) for call in calls]

    return [ended for (ended,) in asyncio.run(run())]


def outcome(call: Callable[[], object]) -> object:
    try:
        return call()
    except farpoint.FarpointError as error:
        return error


@pytest.fixture(params=[farpoint.Client, farpoint.AsyncClient], ids=lambda kind: kind.__name__)
def kind(request):
    return request.param


def test_another_server_answers_what_one_that_hangs_does_not(kind, start, hung, cloud):
    well = start()
    hedge = farpoint.Hedging(SOON_S, max_attempts=5)
    answers = sample_all(kind, [hung.target, well.target], cloud, 8, hedging=hedge)
    first = answers[0].indices.tolist()
    assert [answer.indices.tolist() for answer in answers] == [first] * 8
    assert hung.requests


def test_the_attempts_are_one_request_in_the_log_of_each_server(kind, start, hung, cloud):
    well = start()
    target = [hung.target, well.target]
    sample_all(kind, target, cloud, 2, hedging=farpoint.Hedging(SOON_S, max_attempts=5))
    lost = {seen["x-request-id"] for seen in hung.metadata}
    assert lost <= {seen["x-request-id"] for seen in well.metadata}


def test_an_answer_in_time_is_asked_for_once(kind, start, cloud):
    server = start()
    assert len(sample_all(kind, server.target, cloud, 20, hedging=farpoint.Hedging(10.0))) == 20
    assert len(server.requests) == 20


@pytest.mark.parametrize("code", [grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.INTERNAL])
def test_what_no_server_would_answer_is_asked_of_one(kind, start, cloud, code):
    server = start()
    server.fail(code)
    (error,) = sample_all(kind, server.target, cloud, 1, hedging=farpoint.Hedging(10.0))
    assert isinstance(error, farpoint.FarpointError)
    assert len(server.requests) == 1


def test_a_server_that_is_full_is_passed_at_once(kind, start, cloud):
    server = start()
    server.fail(grpc.StatusCode.RESOURCE_EXHAUSTED)
    (answer,) = sample_all(kind, server.target, cloud, 1, hedging=farpoint.Hedging(10.0))
    assert isinstance(answer, farpoint.Sample)


def test_when_all_are_full_the_caller_is_told_so(kind, start, cloud):
    server = start()
    for _ in range(3):
        server.fail(grpc.StatusCode.RESOURCE_EXHAUSTED)
    hedge = farpoint.Hedging(10.0, max_attempts=3)
    (error,) = sample_all(kind, server.target, cloud, 1, hedging=hedge)
    assert isinstance(error, farpoint.ResourceExhaustedError)
    assert len(server.requests) == 3


def test_larger_requests_are_asked_once(kind, start, cloud):
    server = start()
    server.fail(grpc.StatusCode.RESOURCE_EXHAUSTED)
    hedge = farpoint.Hedging(SOON_S, max_bytes=cloud.nbytes)
    (error,) = sample_all(kind, server.target, cloud, 1, hedging=hedge)
    assert isinstance(error, farpoint.ResourceExhaustedError)


def test_beyond_its_budget_a_client_hedges_no_more(kind, start, cloud):
    server = start()
    calls = 100
    for _ in range(2 * calls):
        server.fail(grpc.StatusCode.RESOURCE_EXHAUSTED)
    sample_all(kind, server.target, cloud, calls, hedging=farpoint.Hedging(10.0, budget=0.05))
    further = len(server.requests) - calls
    assert further <= hedging.BURST + 0.05 * calls
    assert further >= hedging.BURST - 1


def test_what_changes_a_server_and_what_is_uploaded_is_asked_once():
    from farpoint._rpcs import calls, upload
    from farpoint._rpcs.sample import SampleRpc

    classes = [calls.LoadModelRpc, calls.UnloadModelRpc, calls.TrimMemoryRpc, upload.UploadRpc]
    assert not any(rpc.may_be_hedged for rpc in classes)
    client = farpoint.Client("a:1", hedging=farpoint.Hedging(1.0))
    assert client._hedger_of(calls.TrimMemoryRpc(force=False)) is None
    assert client._hedger_of(SampleRpc(np.zeros((9, 3), np.float32), 2)) is not None


@pytest.mark.parametrize(
    "wrong",
    [{"delay": 0}, {"max_attempts": 1}, {"max_attempts": 6}, {"max_bytes": 0}, {"budget": 1.5}],
    ids=lambda wrong: next(iter(wrong)),
)
def test_wrong_settings_are_named(wrong):
    with pytest.raises(farpoint.InvalidArgumentError, match=next(iter(wrong))) as caught:
        farpoint.Hedging(**{"delay": 1.0, **wrong})
    assert caught.value.field == f"hedging.{next(iter(wrong))}"


def test_shared_memory_is_of_this_machine_alone():
    with pytest.raises(farpoint.InvalidArgumentError, match="not both"):
        farpoint.Client("a:1", hedging=farpoint.Hedging(1.0), shared_memory="unix:/x")
