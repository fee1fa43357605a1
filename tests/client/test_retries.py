"""Calls that are repeated, and how long a call may take."""

import socket
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent import futures

import grpc
import numpy as np
import pytest
from google.protobuf.message import Message
from tests.client.conftest import serving

import farpoint
from farpoint._connection.channel import NOT_REPEATED, REPEATED
from farpoint.inference import open_inference_pb2
from farpoint.v1 import admin_pb2, admin_pb2_grpc, sampling_pb2, sampling_pb2_grpc

MAX_ATTEMPTS = 4


class AwayServer(admin_pb2_grpc.AdminServiceServicer, sampling_pb2_grpc.SamplingServiceServicer):
    """Counts attempts and is always unavailable."""

    def __init__(self) -> None:
        self.attempts = Counter()

    def _fail(self, request, context) -> None:
        self.attempts[type(request).__name__.removesuffix("Request")] += 1
        context.abort(grpc.StatusCode.UNAVAILABLE, "away")

    GetMemory = TrimMemory = LoadModel = UnloadModel = _fail

    def SampleStream(self, requests, context) -> Iterator[Message]:  # noqa: N802
        yield self._fail(next(requests), context)


@pytest.fixture
def admin():
    servicer = AwayServer()
    with serving(
        (admin_pb2_grpc.add_AdminServiceServicer_to_server, servicer),
        (sampling_pb2_grpc.add_SamplingServiceServicer_to_server, servicer),
    ) as target:
        servicer.target = target
        yield servicer


@pytest.mark.parametrize(
    ("call", "attempts"),
    [
        (lambda client: client.memory(), {"GetMemory": MAX_ATTEMPTS}),
        (lambda client: client.trim_memory(), {"TrimMemory": 1}),
        (lambda client: client.load_model("encoder"), {"LoadModel": 1}),
        (lambda client: client.unload_model("encoder"), {"UnloadModel": 1}),
        (lambda client: next(client.sample_stream([np.eye(3)], 1)), {"SampleStream": MAX_ATTEMPTS}),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_all_but_changes_of_the_server_are_repeated(admin, call, attempts):
    with (
        farpoint.Client(admin.target, timeout=30) as client,
        pytest.raises(farpoint.UnavailableError),
    ):
        call(client)
    assert admin.attempts == attempts


def contract() -> set[str]:
    """Every RPC as "package.Service/Method"."""
    services = [
        service
        for file in (sampling_pb2, admin_pb2, open_inference_pb2)
        for service in file.DESCRIPTOR.services_by_name.values()
    ]
    return {f"{s.full_name}/{m.name}" for s in services for m in s.methods}


def test_each_rpc_of_the_contract_is_either_repeated_or_not():
    lists = [
        [f"{service}/{method}" for service, methods in rpcs.items() for method in methods]
        for rpcs in (REPEATED, NOT_REPEATED)
    ]
    assert Counter([*lists[0], *lists[1]]) == Counter(contract())


def upload(client: farpoint.Client, cloud) -> None:
    client.sample([cloud] * 200, 1)


def stream(client: farpoint.Client, cloud) -> None:
    [answer] = client.sample_stream([cloud], 1)
    assert answer.error is None


@pytest.mark.parametrize("code", [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED])
@pytest.mark.parametrize("call", [upload, stream, lambda client, cloud: client.sample(cloud, 1)])
async def test_what_a_server_that_ends_has_not_answered_is_repeated(server, cloud, call, code):
    server.message_bytes = 1 << 20
    server.fail(code)
    with farpoint.Client(server.target, timeout=30) as client:
        call(client, cloud)
    assert len(server.requests) == 2


@pytest.mark.parametrize("calls", [None, stream])
async def test_a_server_that_cancels_every_attempt_is_unavailable(server, cloud, calls):
    for _ in range(2 * MAX_ATTEMPTS):
        server.fail(grpc.StatusCode.CANCELLED)
    with (
        farpoint.Client(server.target, timeout=30) as client,
        pytest.raises(farpoint.UnavailableError, match="ended the call") as caught,
    ):
        calls(client, cloud) if calls else client.sample(cloud, 1)
    assert isinstance(caught.value.__cause__, grpc.RpcError)
    async with farpoint.AsyncClient(server.target, timeout=30) as client:
        with pytest.raises(farpoint.UnavailableError, match="ended the call"):
            await client.sample(cloud, 1)


def test_a_client_that_was_answered_waits_for_a_server_that_restarts(server, cloud):
    def start() -> grpc.Server:
        started = grpc.server(futures.ThreadPoolExecutor(1), options=[("grpc.so_reuseport", 0)])
        sampling_pb2_grpc.add_SamplingServiceServicer_to_server(server, started)
        started.add_insecure_port(target)
        started.start()
        return started

    with socket.create_server(("127.0.0.1", 0)) as found:
        target = f"127.0.0.1:{found.getsockname()[1]}"
    with farpoint.Client(target, timeout=30) as client:
        with pytest.raises(farpoint.UnavailableError):
            client.sample(cloud, 5)  # there has never been one
        running = start()
        assert len(client.sample(cloud, 5)) == 5
        running.stop(None).wait()
        waiting = futures.ThreadPoolExecutor(1).submit(client.sample, cloud, 5)
        with pytest.raises(futures.TimeoutError):
            waiting.result(2)  # all attempts without a connection would be over
        running = start()
        assert len(waiting.result(30)) == 5
    running.stop(None).wait()


def failed_calls(client: farpoint.Client, cloud, count: int) -> None:
    for _ in range(count):
        with pytest.raises(farpoint.UnavailableError):
            client.sample(cloud, 1)


def test_failures_spend_the_budget_of_repeats_and_successes_restore_it(server, cloud):
    server.failures = [(grpc.StatusCode.UNAVAILABLE, "no", b"")] * 40
    with farpoint.Client(server.target, timeout=30, retry_budget=5) as client:
        failed_calls(client, cloud, 10)
        # Until the budget is spent every attempt counts; from then on there is one per call.
        assert 10 < len(server.requests) <= 10 + 5
        server.failures.clear()
        for _ in range(100):  # a tenth of a token each: all that were lost
            client.sample(cloud, 1)
        server.requests.clear()
        server.fail(grpc.StatusCode.UNAVAILABLE)
        client.sample(cloud, 1)
    assert len(server.requests) == 2


def test_without_a_budget_nothing_is_repeated(server, cloud):
    server.fail(grpc.StatusCode.UNAVAILABLE)
    with farpoint.Client(server.target, timeout=30, retry_budget=0) as client:
        failed_calls(client, cloud, 1)
    assert len(server.requests) == 1


def test_a_connection_that_breaks_at_once_costs_no_call(server, cloud):
    """As one to a process that is just killed, while another one of the server listens."""
    grpc_server = grpc.server(futures.ThreadPoolExecutor(1))
    sampling_pb2_grpc.add_SamplingServiceServicer_to_server(server, grpc_server)
    listener = socket.create_server(("127.0.0.1", 0))
    target = f"127.0.0.1:{listener.getsockname()[1]}"

    def replace() -> None:
        with listener, listener.accept()[0]:
            pass
        grpc_server.add_insecure_port(target)
        grpc_server.start()

    replacing = threading.Thread(target=replace)
    replacing.start()
    with farpoint.Client(target, timeout=30) as client:
        assert len(client.sample(cloud, 5)) == 5
    replacing.join()
    grpc_server.stop(None).wait()


CLOUD = np.random.default_rng(6).normal(size=(100_000, 3)).astype(np.float32)
TIMEOUT_S = 10.0


@pytest.fixture(params=["Client", "AsyncClient"])
def sample(request, server):
    """Samples CLOUD with a new client of either kind."""

    async def call(timeout: float, **options: str) -> farpoint.Sample:
        if request.param == "Client":
            with farpoint.Client(server.target, **options) as client:
                return client.sample(CLOUD, 1, timeout=timeout)
        async with farpoint.AsyncClient(server.target, **options) as client:
            return await client.sample(CLOUD, 1, timeout=timeout)

    return call


@pytest.mark.parametrize("message_bytes", [64 << 20, 1 << 20], ids=["one message", "upload"])
async def test_the_time_of_a_lookup_is_taken_from_the_request(server, sample, message_bytes):
    server.message_bytes, server.info_takes_s = message_bytes, 0.5
    await sample(TIMEOUT_S)
    assert bool(server.pieces) == (message_bytes < CLOUD.nbytes)
    [left] = server.time_left_s
    assert left < TIMEOUT_S - 0.4


async def test_a_lookup_that_takes_all_of_the_time_ends_the_call(server, sample):
    server.info_takes_s = 1.0
    with pytest.raises(farpoint.DeadlineExceededError):
        await sample(0.2)
    assert not server.requests


async def test_a_server_that_does_not_take_shared_memory_in_time_ends_the_call(
    server, sample, tmp_path
):
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as silent:
        silent.bind(f"{tmp_path}/silent")
        silent.listen()
        with pytest.raises(farpoint.DeadlineExceededError, match=r"within 0\.3 s"):
            await sample(0.3, shared_memory=f"unix:{tmp_path}/silent")
    assert not server.requests


async def test_attempts_share_the_time_of_the_call(server, sample):
    """The first fails after half a second, the next is never answered."""
    server.fail(grpc.StatusCode.UNAVAILABLE)
    server.fails_after_s = 0.5
    server.hold = threading.Event()
    with pytest.raises(farpoint.DeadlineExceededError):
        await sample(1.5)
    first, second = server.time_left_s
    assert second < first - 0.4
