"""Handler of sampling requests: receive, parse, validate, admit, decode, schedule, serialize.

Sample, SampleStream, SampleLarge and ModelInfer of the model `fps` share its steps.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from farpoint.v1.tensor_pb2 import DATA_TYPE_FLOAT32
from farpoint_server import request_context
from farpoint_server.codec.coordinates import DecodedSampleRequest, decode_sample_request
from farpoint_server.codec.open_inference.fps import NAME
from farpoint_server.codec.sample_request import (
    ParsedSampleRequest,
    parse_sample_request,
    read_sample_message,
)
from farpoint_server.codec.sample_response import response_bytes, serialize_sample_response
from farpoint_server.codec.shared_memory import Regions
from farpoint_server.codec.tensors import TensorView
from farpoint_server.codec.validation import RequestLimits
from farpoint_server.engine.engine import Engine, check_any
from farpoint_server.engine.methods import method_bytes
from farpoint_server.engine.sample import sample_bytes
from farpoint_server.engine.types import Outcome, Samples
from farpoint_server.scheduling.admission import Admission
from farpoint_server.scheduling.placement import Scheduler
from farpoint_server.services.model_statistics import MOST_NOTED, Ended, ModelStatistics
from farpoint_server.transport.handlers import Context
from farpoint_server.transport.receive import ReceiveTurns, receive

# Less is decoded or serialized on the event loop, 0.12 ms for a megabyte: the way to another thread
# costs more CPU, and gRPC itself copies every message there.
INLINE_BYTES = 3 << 20
# float32 is only looked at, for NaN and infinity: a megabyte takes 25 us, and float64 120.
INLINE_FLOAT32_BYTES = 1 << 23
# What a radius costs is reckoned from every point: a quarter of a millisecond for these.
INLINE_RADIUS_POINTS = 10_000

T = TypeVar("T")


@dataclass(frozen=True)
class SampleHandler:
    """Turns sampling requests into responses.

    Args:
        limits: What one request may hold at most.
        admission: What all requests together may hold at most.
        receiving: Whose turn it is to send a message.
        batcher: Runs the work.
        engines: One of them gets a request.
        threads: Where large messages are decoded and serialized.
        regions: Shared memory that requests may refer to.
        statistics: Where requests are counted.
    """

    limits: RequestLimits
    admission: Admission
    receiving: ReceiveTurns
    batcher: Scheduler
    engines: Sequence[Engine]
    threads: ThreadPoolExecutor
    regions: Regions = field(default_factory=Regions)
    statistics: ModelStatistics = field(default_factory=ModelStatistics)

    async def handle(self, _: object, context: Context) -> bytes:
        """Sample: the serialized SampleResponse to the one message of a call.

        Raises:
            ServiceError: the request is wrong, or it cannot be done now.
        """
        arrived = time.monotonic()
        self.admission.check_room()
        chunks = await self.sample(
            # Not kept here: its bytes are not needed any more where the points had to be copied.
            parse_sample_request(
                read_sample_message(await receive(context, self.receiving), self.limits.clouds),
                self.limits,
                self.regions,
            ),
            context.time_remaining(),
            partial(serialize_sample_response, arrived),
        )
        return b"".join(chunks)

    async def sample(
        self,
        request: ParsedSampleRequest,
        timeout_s: float | None,
        serialize: Callable[[DecodedSampleRequest, Outcome[Samples]], T],
        *,
        is_admitted: bool = False,
    ) -> T:
        """The response to a request, as `serialize` makes it.

        Args:
            request: Not kept longer than its data is needed, if the caller does not.
            timeout_s: Seconds that the caller will still wait; None for ever.
            serialize: Given the decoded request and the outcome, of a large one on a thread.
            is_admitted: Whether the caller has it count already.

        Raises:
            ServiceError: the request is wrong, or it cannot be done now.
        """
        begun = time.monotonic_ns()
        try:
            return await self._sample(request, timeout_s, serialize, is_admitted, begun)
        except BaseException:
            self.statistics.fail(NAME, begun)
            raise

    async def _sample(
        self,
        request: ParsedSampleRequest,
        timeout_s: float | None,
        serialize: Callable[[DecodedSampleRequest, Outcome[Samples]], T],
        is_admitted: bool,
        begun: int,
    ) -> T:
        points, clouds = request.points.shape[0], len(request.lengths)
        current = request_context.variable.get()
        fields = {} if current is None else current.fields
        fields["points"], fields["clouds"] = points, clouds
        size = request.message_bytes + request.shared_bytes
        is_bounded = all(engine.memory.bounded for engine in self.engines)
        is_small, loop = _is_small(request), asyncio.get_running_loop()
        with nullcontext() if is_admitted else self.admission.hold(points, size):
            if is_bounded:
                check_any(self.engines, _largest_cloud_bytes(request))
            if is_small:
                decoded = decode_sample_request(request)
            else:
                decoded = await loop.run_in_executor(self.threads, decode_sample_request, request)
            decoded_at = time.monotonic_ns()
            outcome = await self.batcher.run(decoded.work, timeout_s)
            times = begun, decoded_at, time.monotonic_ns()
            waited, took = outcome.queue_ms, outcome.compute_ms
            fields["samples"] = len(outcome.result.rows)
            fields["queue_ms"], fields["compute_ms"] = round(waited, 3), round(took, 3)
            if response_bytes(request, outcome) <= INLINE_BYTES:
                response = serialize(decoded, outcome)
            else:
                response = await loop.run_in_executor(self.threads, serialize, decoded, outcome)
        counted = NAME, clouds, outcome.batch_requests, waited, took
        self.statistics.noted.append(Ended(*counted, *times, time.monotonic_ns()))
        if len(self.statistics.noted) >= MOST_NOTED:
            self.statistics.count()
        return response


def _is_small(request: ParsedSampleRequest) -> bool:
    """Whether it is decoded on the event loop."""
    tensor = request.points
    is_float32 = type(tensor) is TensorView and tensor.data_type == DATA_TYPE_FLOAT32
    most = INLINE_FLOAT32_BYTES if is_float32 else INLINE_BYTES
    if len(tensor.data) > most or request.shared_bytes > INLINE_BYTES:
        return False
    return request.covering_radius is None or tensor.shape[0] <= INLINE_RADIUS_POINTS


def _largest_cloud_bytes(request: ParsedSampleRequest) -> int:
    """Device memory for the longest cloud by itself: batches are sliced between clouds."""
    counts, lengths = request.sample_counts, request.lengths
    longest = int(lengths.argmax()) if len(lengths) > 1 else 0
    if request.method is not None:
        return method_bytes(int(lengths[longest]))
    samples = int(counts[longest if len(counts) > 1 else 0])
    return sample_bytes(int(lengths[longest]), 1, samples)
