"""One request from its message to its serialized answer."""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

import structlog

from farpoint_server.admission import Admission
from farpoint_server.batcher import Batcher
from farpoint_server.codec.sample import Decoded, decode, encode, timings
from farpoint_server.codec.sample_plan import Limits, Plan, check_size, read_plan
from farpoint_server.codec.wire import Buffer, SampleMessage
from farpoint_server.memory_bound import MemoryBound
from farpoint_server.shared_memory.regions import Regions
from farpoint_server.work import Outcome

# Smaller requests are converted on the event loop: the way to another thread costs more, and
# gRPC itself copies every message there.
INLINE_BYTES = 1 << 21

T = TypeVar("T")


@dataclass(frozen=True)
class Sampler:
    """What Sample, SampleStream and SampleLarge have in common."""

    limits: Limits
    admission: Admission
    batcher: Batcher
    threads: ThreadPoolExecutor
    memory: MemoryBound
    regions: Regions = field(default_factory=Regions)

    async def answer(
        self, message: SampleMessage, timeout_s: float | None, arrived: float
    ) -> list[Buffer]:
        """The serialized SampleResponse to a message, as chunks.

        Args:
            message: Not kept longer than its data is needed, if the caller does not keep it.
            timeout_s: Seconds that the caller will still wait; None for ever.
            arrived: When the call began, in seconds of time.monotonic.

        Raises:
            ServiceError: the request is wrong, or it cannot be done now.
        """
        check_size(message, self.limits)
        # Held from here on: reading the plan may already copy the points.
        with self.admission.hold(0, message.size):
            plan = read_plan(message, self.limits, self.regions)
            del message
            with self.admission.hold(plan.points.shape[0], plan.shared_bytes):
                return await self.work(plan, timeout_s, arrived)

    async def work(self, plan: Plan, timeout_s: float | None, arrived: float) -> list[Buffer]:
        """As `answer`, for a request that is admitted."""
        chunks, outcome = await self.run(plan, timeout_s, encode)
        return [*chunks, timings(outcome, (time.monotonic() - arrived) * 1e3)]

    async def run(
        self, plan: Plan, timeout_s: float | None, encode: Callable[[Decoded, Outcome], T]
    ) -> tuple[T, Outcome]:
        """The outcome of a request that is admitted, and what `encode` makes of it."""
        structlog.contextvars.bind_contextvars(
            points=plan.points.shape[0], clouds=len(plan.lengths)
        )
        self.memory.check(plan)
        size = _size(plan)
        decoded = await self._convert(size, decode, plan)
        outcome = await self.batcher.sample(decoded.clouds, timeout_s)
        answer = await self._convert(size, encode, decoded, outcome)
        structlog.contextvars.bind_contextvars(
            samples=len(outcome.samples.rows),
            queue_ms=round(outcome.queue_ms, 3),
            compute_ms=round(outcome.compute_ms, 3),
        )
        return answer, outcome

    async def _convert(self, size: int, convert: Callable[..., T], *arguments: Any) -> T:
        if size <= INLINE_BYTES:
            return convert(*arguments)
        return await asyncio.get_running_loop().run_in_executor(self.threads, convert, *arguments)


def _size(plan: Plan) -> int:
    """Bytes of all tensors of a request."""
    views = (plan.points, *(values for _, values in plan.attributes))
    return sum(memoryview(view.data).nbytes for view in views)
