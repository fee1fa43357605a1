"""The steps of every request: receive, parse, admit, decode, compute, serialize.

Sample, SampleStream, SampleLarge, Encode and ModelInfer differ in how they parse a message. What
they make of it is a `Call`, which takes the rest of the way here.
"""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from farpoint_server import request_context
from farpoint_server.codec.raw_sample import RawSample
from farpoint_server.codec.sample_request import parse_sample_request, read_sample_message
from farpoint_server.codec.sample_response import serialize_sample_response
from farpoint_server.codec.shared_memory import Regions
from farpoint_server.codec.tensors import RequestLimits
from farpoint_server.compute.compute import Compute
from farpoint_server.compute.work import Outcome
from farpoint_server.request_context import Fields
from farpoint_server.services.call import Call, raw_call, sample_call
from farpoint_server.services.receiver import Receiver
from farpoint_server.transport.admission import Admission
from farpoint_server.transport.grpc.handlers import Context

T = TypeVar("T")
# As long as any request may take.
ANY_NS = 1 << 62


@dataclass(frozen=True)
class Pipeline:
    """The steps of every request, and their components.

    Args:
        limits: What one request may hold at most.
        admission: What all requests together may hold at most.
        receiving: Whose turn it is to send a message.
        compute: Runs the work.
        threads: Where large messages are decoded and serialized.
        regions: Shared memory that requests to sample may refer to.
    """

    limits: RequestLimits
    admission: Admission
    receiving: Receiver
    compute: Compute
    threads: ThreadPoolExecutor
    regions: Regions = field(default_factory=Regions)

    async def sample(self, _: object, context: Context) -> bytes:
        """Sample: the serialized SampleResponse to the message of a call."""
        arrived = time.monotonic()
        raw = await self.receive(context)
        response = await self.sample_raw(raw, arrived, context.time_remaining())
        if response is not None:
            return response
        message = read_sample_message(raw, self.limits.clouds)
        request = parse_sample_request(message, self.limits, self.regions)
        del raw, message  # what the points need of it, they hold
        call = sample_call(request, partial(serialize_sample_response, arrived))
        del request
        running = self.run(call, context.time_remaining())
        del call
        return await running

    async def sample_raw(
        self, raw: bytes, arrived: float, timeout_s: float | None, *, is_streamed: bool = False
    ) -> bytes | None:
        """The SampleResponse to a common SampleRequest that C++ answers; None for others.

        On a CPU it must be small, and an engine idle.

        Args:
            raw: The message; a SampleStreamRequest if `is_streamed`.
            arrived: When it did, by time.monotonic.
            timeout_s: Seconds that the caller will still wait; None for ever.
        """
        compute = self.compute
        most_ns = ANY_NS if compute.batches_messages else compute.inline_ns
        work = RawSample.read(raw, self.limits, most_ns, arrived, is_streamed=is_streamed)
        if work is None:
            return None
        # Not reserved at admission: until it is answered, no other request is looked at.
        outcome: Outcome[Any] | None = compute.run_inline(work)
        if outcome is None:
            running = self.run(raw_call(work), timeout_s) if compute.batches_messages else None
            return await running if running else None
        fields = request_context.current().fields
        fields["points"], fields["clouds"], fields["samples"] = work.point_count, 1, work.samples
        _add_times(fields, outcome)
        return work.respond(outcome)

    async def receive(self, context: Context) -> bytes:
        """The message of a call; raises ServiceError without headroom for it."""
        self.admission.check_headroom()
        return await self.receiving.receive(context)

    async def run(self, call: Call[T], timeout_s: float | None, *, is_admitted: bool = False) -> T:
        """The response to a request.

        Args:
            call: The request; the reference to it is dropped once it is decoded.
            timeout_s: Seconds that the caller will still wait; None for ever.
            is_admitted: Whether the caller has it count already.
        """
        current, loop = request_context.variable.get(), asyncio.get_running_loop()
        fields, compute = {} if current is None else current.fields, self.compute
        with nullcontext() if is_admitted else self.admission.reserve(call.points, call.size):
            fields["points"], fields["clouds"] = call.points, len(call.lengths)
            is_unchecked = compute.is_bounded
            if is_unchecked and call.least_bytes is not None:
                compute.check(call.least_bytes())
                is_unchecked = False
            if call.is_small:
                decoded = call.decode()
            else:
                decoded = await loop.run_in_executor(self.threads, call.decode)
            del call
            if is_unchecked:
                compute.check(decoded.work.least_bytes)
            outcome = await compute.run(decoded.work, timeout_s)
            fields.update(decoded.fields(outcome))
            _add_times(fields, outcome)
            if decoded.is_short(outcome):
                return decoded.serialize(outcome)
            return await loop.run_in_executor(self.threads, decoded.serialize, outcome)


def _add_times(fields: Fields, outcome: Outcome[Any]) -> None:
    fields["queue_ms"] = round(outcome.queue_ms, 3)
    fields["compute_ms"] = round(outcome.compute_ms, 3)
