"""The steps of every request: receive, admit, decode, schedule, serialize.

Sample, SampleStream, SampleLarge, Encode and ModelInfer differ in how they parse a message. What
they make of it is a `Call`, which takes the rest of the way here.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Generic, TypeVar

from farpoint.v1.tensor_pb2 import DATA_TYPE_FLOAT32
from farpoint_server import request_context
from farpoint_server.codec.coordinates import DecodedSampleRequest, decode_sample_request
from farpoint_server.codec.sample_request import (
    ParsedSampleRequest,
    parse_sample_request,
    read_sample_message,
)
from farpoint_server.codec.sample_response import response_bytes, serialize_sample_response
from farpoint_server.codec.shared_memory import Regions
from farpoint_server.codec.small_sample import SmallSample
from farpoint_server.codec.tensors import RequestLimits, TensorView
from farpoint_server.engine.engine import Engine, check_any
from farpoint_server.engine.methods import method_bytes
from farpoint_server.engine.sample import sample_bytes
from farpoint_server.engine.types import Answer, Int64s, Outcome, Samples
from farpoint_server.scheduling.batcher import Batcher, Scheduler
from farpoint_server.services.receiver import Receiver
from farpoint_server.transport.admission import Admission
from farpoint_server.transport.handlers import Context

# Less is decoded or serialized on the event loop, 0.12 ms for a megabyte: the way to another thread
# costs more CPU, and gRPC itself copies every message there.
INLINE_BYTES = 3 << 20
# Aligned float32 is only looked at, for NaN and infinity: a megabyte takes 25 us, and float64 120.
INLINE_FLOAT32_BYTES = 1 << 23
# The cost of a radius is computed from every point: a quarter of a millisecond for these.
INLINE_RADIUS_POINTS = 10_000

T = TypeVar("T")


class Call(Generic[Answer, T]):
    """A request to a loaded model, parsed and valid.

    Args:
        model: Its name.
        lengths: Points of each cloud, (B,).
        size: Bytes that it holds until it is answered.
        to_work: Makes the work, with the `least_bytes` of its longest cloud; raises
            InvalidRequestError for values that are wrong.
        to_response: Makes the response of the outcome.
    """

    is_small = False
    """Whether it is decoded on the event loop."""

    def __init__(
        self,
        model: str,
        lengths: Int64s,
        size: int,
        to_work: Callable[[], Any],
        to_response: Callable[[Outcome[Answer]], T],
    ) -> None:
        self.model, self.lengths, self.size = model, lengths, size
        self.decode, self.serialize = to_work, to_response
        self.points = int(lengths.sum())

    def least_bytes(self) -> int | None:
        """Minimum device memory; None if it is known only after decoding."""
        return None

    def is_short(self, outcome: Outcome[Answer]) -> bool:  # noqa: ARG002
        """Whether the response is serialized on the event loop."""
        return False

    def describe(self, fields: dict[str, Any], outcome: Outcome[Answer]) -> None:  # noqa: ARG002
        """Adds optional fields to its log line."""
        fields["model"] = self.model


class SampleCall(Call[Samples, T]):
    """A request to sample, parsed and valid.

    Args:
        request: Not kept longer than its data is needed, if the caller does not.
        to_response: Makes the response of the decoded request and the outcome.
    """

    def __init__(
        self,
        request: ParsedSampleRequest,
        to_response: Callable[[DecodedSampleRequest, Outcome[Samples]], T],
    ) -> None:
        self._request, self._to_response = request, to_response
        tensor, shared_bytes = request.points, request.shared_bytes
        self.lengths, self.points = request.lengths, tensor.shape[0]
        self.size = request.message_bytes + shared_bytes
        is_float32 = type(tensor) is TensorView and tensor.data_type == DATA_TYPE_FLOAT32
        is_used_as_is = is_float32 and tensor.is_aligned
        self.is_small = (
            len(tensor.data) <= (INLINE_FLOAT32_BYTES if is_used_as_is else INLINE_BYTES)
            and shared_bytes <= INLINE_BYTES
            and (request.covering_radius is None or self.points <= INLINE_RADIUS_POINTS)
        )

    def decode(self) -> Any:
        decoded = decode_sample_request(self._request)
        self._request = decoded.request  # what it is a copy of is not kept
        self.serialize = partial(self._to_response, decoded)
        return decoded.work

    def least_bytes(self) -> int:
        counts, lengths = self._request.sample_counts, self.lengths
        longest = int(lengths.argmax()) if len(lengths) > 1 else 0
        if self._request.method is not None:
            return method_bytes(int(lengths[longest]))
        samples = int(counts[longest if len(counts) > 1 else 0])
        return sample_bytes(int(lengths[longest]), 1, samples)

    def is_short(self, outcome: Outcome[Samples]) -> bool:
        return response_bytes(self._request, outcome) <= INLINE_BYTES

    def describe(self, fields: dict[str, Any], outcome: Outcome[Samples]) -> None:
        fields["samples"] = len(outcome.result.rows)


@dataclass(frozen=True)
class Pipeline:
    """The steps of every request, and their components.

    Args:
        limits: What one request may hold at most.
        admission: What all requests together may hold at most.
        receiving: Whose turn it is to send a message.
        batcher: Runs the work.
        engines: One of them gets a request.
        threads: Where large messages are decoded and serialized.
        regions: Shared memory that requests to sample may refer to.
    """

    limits: RequestLimits
    admission: Admission
    receiving: Receiver
    batcher: Scheduler
    engines: Sequence[Engine]
    threads: ThreadPoolExecutor
    regions: Regions = field(default_factory=Regions)

    @cached_property
    def _inline(self) -> Batcher | None:
        """Runs small work on the event loop; None with several devices."""
        return self.batcher if isinstance(self.batcher, Batcher) else None

    @cached_property
    def is_bounded(self) -> bool:
        """Whether every engine has a bound on its memory."""
        return all(engine.memory.bounded for engine in self.engines)

    async def sample(self, _: object, context: Context) -> bytes:
        """Sample: the serialized SampleResponse to the message of a call."""
        arrived = time.monotonic()
        raw = await self.receive(context)
        answer = self._answer_small(raw, arrived)
        if answer is not None:
            return answer
        message = read_sample_message(raw, self.limits.clouds)
        request = parse_sample_request(message, self.limits, self.regions)
        del raw, message  # what the points need of it, they hold
        call = SampleCall(request, partial(serialize_sample_response, arrived))
        del request
        return await self.run(call, context.time_remaining())

    def _answer_small(self, raw: bytes, arrived: float) -> bytes | None:
        """The response to a small common request, if the engine is idle."""
        if (batcher := self._inline) is None:
            return None
        work = SmallSample.read(raw, self.limits, self.engines[0].inline_ns, arrived)
        if work is None:
            return None
        # Not reserved at admission: until it is answered, no other request is looked at.
        outcome: Outcome[bytes] | None = batcher.run_inline(work)
        if outcome is None:
            return None
        fields = request_context.current().fields
        fields["points"], fields["clouds"], fields["samples"] = work.point_count, 1, work.samples
        fields["queue_ms"], fields["compute_ms"] = 0.0, round(outcome.compute_ms, 3)
        return outcome.result

    async def receive(self, context: Context) -> bytes:
        """The message of a call; raises ServiceError without headroom for it."""
        self.admission.check_headroom()
        return await self.receiving.receive(context)

    async def run(
        self, call: Call[Any, T], timeout_s: float | None, *, is_admitted: bool = False
    ) -> T:
        """The response to a request.

        Args:
            call: The request.
            timeout_s: Seconds that the caller will still wait; None for ever.
            is_admitted: Whether the caller has it count already.
        """
        current, loop = request_context.variable.get(), asyncio.get_running_loop()
        fields = {} if current is None else current.fields
        with nullcontext() if is_admitted else self.admission.reserve(call.points, call.size):
            fields["points"], fields["clouds"] = call.points, len(call.lengths)
            least_bytes = call.least_bytes() if self.is_bounded else None
            if least_bytes is not None:
                check_any(self.engines, least_bytes)
            if call.is_small:
                work = call.decode()
            else:
                work = await loop.run_in_executor(self.threads, call.decode)
            if self.is_bounded and least_bytes is None:
                check_any(self.engines, work.least_bytes)
            outcome = await self.batcher.run(work, timeout_s)
            call.describe(fields, outcome)
            fields["queue_ms"] = round(outcome.queue_ms, 3)
            fields["compute_ms"] = round(outcome.compute_ms, 3)
            if call.is_short(outcome):
                return call.serialize(outcome)
            return await loop.run_in_executor(self.threads, call.serialize, outcome)
