"""The two clients: the same surface, and how they use their channel."""

import asyncio
import functools
import inspect
import threading

import grpc
import numpy as np
import pytest
from google.protobuf.message import Message

import farpoint
from farpoint import InternalError
from farpoint.v1 import sampling_pb2 as pb
from farpoint.v1 import tensor_pb2


def surface(kind):
    return {name for name, _ in inspect.getmembers(kind, callable) if not name.startswith("_")}


def parameters(function):
    """Without their types, as an async client takes async iterables too."""
    return [p.replace(annotation=None) for p in inspect.signature(function).parameters.values()]


def test_both_clients_have_the_same_methods_and_parameters():
    assert surface(farpoint.Client) == surface(farpoint.AsyncClient)
    defaults = {p.name: p.default for p in parameters(farpoint.Client)}
    assert (defaults["timeout"], defaults["retry_budget"]) == (60, 50)
    for name in surface(farpoint.Client) | {"__init__"}:
        sync, twin = getattr(farpoint.Client, name), getattr(farpoint.AsyncClient, name)
        assert parameters(sync) == parameters(twin), name
        awaited = inspect.iscoroutinefunction(twin) or inspect.isasyncgenfunction(twin)
        assert name == "__init__" or awaited, name


async def test_async_samples_equal_sync_ones(server, client, cloud):
    expected = client.sample(cloud, 12, attributes=cloud)
    async with farpoint.AsyncClient(server.target) as twin:
        one = await twin.sample(cloud, 12, attributes=cloud)
        many = await asyncio.gather(*(twin.sample([cloud, cloud], [3, 4]) for _ in range(5)))
        assert await twin.sample([], 3) == []
        assert await twin.server_info() == client.server_info()
    assert np.array_equal(one.indices, expected.indices)
    assert np.array_equal(one.attributes, expected.attributes)
    assert [len(s) for s in many[4]] == [3, 4]


async def test_an_unused_async_client_closes():
    async with farpoint.AsyncClient():
        pass


@pytest.mark.parametrize("points", [500, 120_000])
def test_an_unavailable_server_is_tried_again(client, server, points):
    """Also with requests above the 256 KiB that gRPC keeps for a retry by default."""
    server.fail(grpc.StatusCode.UNAVAILABLE)
    server.fail(grpc.StatusCode.UNAVAILABLE)
    assert len(client.sample(np.random.default_rng(0).random((points, 3), np.float32), 2)) == 2
    assert len(server.requests) == 3


async def test_a_cancelled_task_stays_cancelled(server, cloud):
    server.hold = threading.Event()
    async with farpoint.AsyncClient(server.target) as client:
        task = asyncio.create_task(client.sample(cloud, 1))
        await asyncio.sleep(0.2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


class ClosingChannel:
    """Closes its client when a call begins, as another thread may."""

    client: farpoint.Client

    def __init__(self, channel: grpc.Channel) -> None:
        self.close, self.unary_stream = channel.close, channel.unary_stream
        self.unary_unary, self.stream_stream, self.stream_unary = (
            functools.partial(self._make, kind)
            for kind in (channel.unary_unary, channel.stream_stream, channel.stream_unary)
        )

    def _make(self, kind, *arguments, **options):
        call = kind(*arguments, **options)

        def close_and_call(*arguments, **options):
            self.client.close()
            return call(*arguments, **options)

        return close_and_call


@pytest.mark.parametrize(
    "call",
    [
        lambda client, cloud: client.sample(cloud, 1),
        lambda client, cloud: next(client.sample_stream([cloud], 1)),
    ],
)
def test_a_call_of_a_client_that_another_thread_closes_has_an_error_of_its_own(
    server, cloud, call, monkeypatch
):
    channel = ClosingChannel(grpc.insecure_channel(server.target))
    monkeypatch.setattr("grpc.insecure_channel", lambda *_, **__: channel)
    channel.client = farpoint.Client(server.target)
    with pytest.raises(farpoint.FailedPreconditionError, match="closed"):
        call(channel.client, cloud)


async def wait_for_request(server) -> None:
    while not server.requests:
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("kind", [farpoint.Client, farpoint.AsyncClient])
async def test_calls_of_a_client_that_is_closed_end_with_its_error(server, cloud, kind):
    server.hold = threading.Event()
    client = kind(server.target)
    is_async = kind is farpoint.AsyncClient
    call = client.sample(cloud, 1) if is_async else asyncio.to_thread(client.sample, cloud, 1)
    task = asyncio.create_task(call)
    await asyncio.wait_for(wait_for_request(server), 30)
    await client.close() if is_async else client.close()
    with pytest.raises(farpoint.CancelledError, match="the client was closed"):
        await asyncio.wait_for(task, 30)


async def test_a_task_that_is_cancelled_while_its_client_is_closed_stays_cancelled(server, cloud):
    server.hold = threading.Event()
    client = farpoint.AsyncClient(server.target)
    task = asyncio.create_task(client.sample(cloud, 1))
    await asyncio.wait_for(wait_for_request(server), 30)
    task.cancel()
    await client.close()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_a_large_answer_passes(client, server):
    """Above the 4 MiB that gRPC takes by default."""
    n = 800_000
    indices = tensor_pb2.Tensor(data_type=7, shape=[n], data=np.arange(n, dtype="<i4").tobytes())
    distances = tensor_pb2.Tensor(data_type=1, shape=[n], data=bytes(4 * n))
    server.answer = pb.SampleResponse(indices=indices, distances=distances, lengths=[n])
    assert len(client.sample(np.zeros((n, 3), np.float16), n)) == n


def change(message: Message, name: str, **values: object) -> None:
    part = getattr(message, name)
    for key, value in values.items():
        if isinstance(value, list):
            del getattr(part, key)[:]
            getattr(part, key).extend(value)
        else:
            setattr(part, key, value)


NONSENSE = {
    "no answer at all": lambda a: a.Clear(),
    "too few indices": lambda a: change(a, "indices", shape=[2], data=bytes(8)),
    "indices in a column": lambda a: change(a, "indices", shape=[3, 1]),
    "floats for indices": lambda a: change(a, "indices", data_type=1),
    "bytes that do not fit": lambda a: change(a, "indices", data=bytes(11)),
    "an unknown type": lambda a: change(a, "indices", data_type=99),
    "no distances": lambda a: a.ClearField("distances"),
    "a row beyond the cloud": lambda a: change(a, "indices", data=b"\xff\xff\xff\x7f" * 3),
    "a negative row": lambda a: change(a, "indices", data=b"\xff\xff\xff\xff" * 3),
    "origins of other clouds": lambda a: change(a, "origins", shape=[3], data_type=2),
}


@pytest.mark.parametrize("case", NONSENSE)
def test_an_answer_that_makes_no_sense_is_an_internal_error(client, server, cloud, case):
    client.sample(cloud.astype(np.float64), 3)
    server.answer = server.sampled(server.requests[0])
    NONSENSE[case](server.answer)
    with pytest.raises(InternalError, match="the server answered with"):
        client.sample(cloud.astype(np.float64), 3)
