"""The steps of a sampling request: validated before it is admitted, converted where it is cheap."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest
from tests.support.compute.scheduling import until
from tests.support.memory.simulation import FakeAllocator
from tests.support.messages import sample_request
from tests.support.rpc import CallContext

from farpoint.v1 import sampling_pb2 as pb
from farpoint.v1 import tensor_pb2
from farpoint_server import request_context
from farpoint_server.codec.sample_request import (
    SampleMessage,
    parse_sample_request,
    read_sample_message,
)
from farpoint_server.codec.sample_response import serialize_sample_response
from farpoint_server.codec.tensors import RequestLimits
from farpoint_server.compute.compute import Compute
from farpoint_server.compute.cpu import CpuEngine
from farpoint_server.compute.memory.gate import Gate
from farpoint_server.compute.memory.manager import Manager
from farpoint_server.compute.memory.policy import Thresholds
from farpoint_server.compute.scheduler import DeviceScheduler
from farpoint_server.compute.work import Outcome
from farpoint_server.errors import OverloadedError, TooLargeError
from farpoint_server.kinds.sample import Samples, SampleWork, one_point, sample_bytes
from farpoint_server.request_context import RequestContext
from farpoint_server.services.call import (
    INLINE_FLOAT32_BYTES,
    INLINE_RADIUS_POINTS,
    sample_call,
)
from farpoint_server.services.pipeline import Pipeline
from farpoint_server.services.receiver import Receiver
from farpoint_server.transport.admission import Admission

LIMITS = RequestLimits(message_bytes=1 << 26, points=1 << 20, clouds=5)
LARGE = INLINE_FLOAT32_BYTES // 12 + 1
CLOUD = np.random.default_rng(0).random((500, 3), np.float32)
ROWS = {"name": "row", "values": {"data_type": 8, "shape": [500], "data": bytes(4000)}}


class FirstRows:
    """Chooses the first rows of one cloud, as compute does."""

    is_bounded = False

    async def run(self, work, timeout_s):  # noqa: ARG002
        rows = np.arange(work.clouds.sample_counts.sum(), dtype=np.int32)
        return Outcome(Samples(rows, np.zeros(len(rows), np.float32)), 0, 0)


class Queued:
    """Counts the work that compute gets with `run`."""

    def __init__(self, compute: Compute) -> None:
        self.count, self._run = 0, compute.run
        compute.run = self

    async def __call__(self, work, timeout_s):
        self.count += 1
        return await self._run(work, timeout_s)


def message(points: int, samples: int, cloud: np.ndarray | None = None, **fields) -> SampleMessage:
    data = (np.zeros((points, 3), np.float32) if cloud is None else cloud).tobytes()
    tensor = tensor_pb2.Tensor(data_type=1, shape=[points, 3], data=data)
    request = pb.SampleRequest(points=tensor, sample_counts=[samples], **fields)
    return SampleMessage(request, None, request.ByteSize())


def pipeline(threads: ThreadPoolExecutor | None = None, compute: Compute | None = None) -> Pipeline:
    admission = Admission(1 << 20, max_bytes=1 << 30)
    return Pipeline(LIMITS, admission, None, compute or FirstRows(), threads)


def compute_on(engine: CpuEngine) -> Compute:
    return Compute([DeviceScheduler(engine, 1 << 20)], print, print)


async def test_a_sample_that_no_engine_can_hold_is_refused_before_it_is_decoded():
    memory = Manager(FakeAllocator(1 << 20), Thresholds(), Gate(), bounded=True)
    engine = CpuEngine(1, memory)
    nan = np.full((LARGE, 3), np.nan, np.float32)
    call = sample_call(parse_sample_request(message(LARGE, 5, nan), LIMITS), lambda *_: [])
    with pytest.raises(TooLargeError):
        await pipeline(compute=compute_on(engine)).run(call, None)
    engine.close()


class Threads(ThreadPoolExecutor):
    """One thread; counts what it is given."""

    def __init__(self) -> None:
        super().__init__(1)
        self.count = 0

    def submit(self, *arguments):
        self.count += 1
        return super().submit(*arguments)


@pytest.mark.parametrize(
    ("points", "samples", "fields", "elsewhere"),
    [
        (9, 5, {}, 0),
        (LARGE, 5, {}, 1),  # to decode
        (LARGE, LARGE, {}, 2),  # and to serialize
        (9, 5, {"covering_radius": 1}, 0),
        (INLINE_RADIUS_POINTS + 1, 5, {"covering_radius": 1}, 1),  # to compute its cost
    ],
)
async def test_only_what_takes_long_leaves_the_event_loop(points, samples, fields, elsewhere):
    request = parse_sample_request(message(points, samples, **fields), LIMITS)
    call = sample_call(request, partial(serialize_sample_response, 0.0))
    with Threads() as threads:
        data = await pipeline(threads).run(call, None)
    assert threads.count == elsewhere
    assert len(pb.SampleResponse.FromString(data).indices.data) == 4 * samples


async def test_a_small_request_is_answered_at_once_and_waits_only_for_a_busy_engine():
    engine = CpuEngine(1)
    compute = compute_on(engine)
    await compute.warm_up(SampleWork(one_point()))
    compute.start()
    queued = Queued(compute)
    admission = Admission(5000, max_bytes=1 << 30)
    service = Pipeline(LIMITS, admission, Receiver(1), compute, None)

    async def sample(**fields) -> list[int]:
        request_context.variable.set(RequestContext({}))
        context = CallContext(message(500, 3, CLOUD, **fields).request.SerializeToString())
        answer = pb.SampleResponse.FromString(await service.sample(None, context))
        return np.frombuffer(answer.indices.data, "<i4").tolist()

    try:
        small = await sample()
        assert queued.count == 0
        fields = request_context.current().fields
        assert fields.pop("compute_ms") > 0
        assert fields == {"points": 500, "clouds": 1, "samples": 3, "queue_ms": 0}
        streamed = pb.SampleStreamRequest(request=message(500, 3, CLOUD).request)
        answer = await service.sample_raw(streamed.SerializeToString(), 0.0, 60, is_streamed=True)
        assert (
            np.frombuffer(pb.SampleResponse.FromString(answer).indices.data, "<i4").tolist()
            == small
        )
        assert await sample(attributes=[ROWS]) == small, "a request that Python answers"
        assert queued.count == 1
        turn = threading.Event()
        busy = asyncio.ensure_future(engine.call(turn.wait))
        await asyncio.sleep(0)
        waiting = asyncio.ensure_future(sample())
        await until(lambda: queued.count == 2)
        turn.set()
        assert await waiting == small
        await busy
        with admission.reserve(5000, 1), pytest.raises(OverloadedError, match="at most 5000"):
            await sample()
    finally:
        await compute.stop()


@pytest.mark.parametrize("lengths", [[900], [900, 5], [5, 900], [5, 900, 7]])
def test_the_least_memory_of_a_request_is_that_of_its_longest_cloud(lengths):
    points = np.zeros((sum(lengths), 3), np.float32)
    message = sample_request(points, 3, lengths=lengths).SerializeToString()
    request = parse_sample_request(read_sample_message(message, 5), LIMITS)
    call = sample_call(request, partial(serialize_sample_response, 0))
    assert call.least_bytes() == sample_bytes(900, 1, 3)
