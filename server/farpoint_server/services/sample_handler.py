"""One request from its message to its serialized answer."""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

from farpoint_server import request_context as call
from farpoint_server.codec.sample_request import Limits, Plan, check_size, read_plan
from farpoint_server.codec.sample_response import Decoded, decode, encode, timings
from farpoint_server.codec.shared_memory import Regions
from farpoint_server.codec.wire import Buffer, SampleMessage
from farpoint_server.engine.sample import SampleWork
from farpoint_server.engine.types import Outcome, Samples
from farpoint_server.scheduling.admission import Admission
from farpoint_server.scheduling.batcher import Batcher
from farpoint_server.services.memory_bound import MemoryBound

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
        with self.admission.hold(0, message.size) as held:
            plan = read_plan(message, self.limits, self.regions)
            del message
            held.add(plan.points.shape[0], plan.shared_bytes)
            return await self.work(plan, timeout_s, arrived)

    async def work(self, plan: Plan, timeout_s: float | None, arrived: float) -> list[Buffer]:
        """As `answer`, for a request that is admitted."""
        chunks, outcome = await self.run(plan, timeout_s, encode)
        return [*chunks, timings(outcome, (time.monotonic() - arrived) * 1e3)]

    async def run(
        self, plan: Plan, timeout_s: float | None, encode: Callable[[Decoded, Outcome[Samples]], T]
    ) -> tuple[T, Outcome[Samples]]:
        """The outcome of a request that is admitted, and what `encode` makes of it."""
        fields = call.current().fields
        fields["points"], fields["clouds"] = plan.points.shape[0], len(plan.lengths)
        self.memory.check(plan)
        is_small = plan.bytes <= INLINE_BYTES
        decoded = decode(plan) if is_small else await self._on_a_thread(decode, plan)
        outcome = await self.batcher.run(SampleWork(decoded.clouds), timeout_s)
        if is_small:
            answer = encode(decoded, outcome)
        else:
            answer = await self._on_a_thread(encode, decoded, outcome)
        fields["samples"] = len(outcome.result.rows)
        fields["queue_ms"] = round(outcome.queue_ms, 3)
        fields["compute_ms"] = round(outcome.compute_ms, 3)
        return answer, outcome

    def _on_a_thread(self, convert: Callable[..., T], *arguments: Any) -> asyncio.Future[T]:
        return asyncio.get_running_loop().run_in_executor(self.threads, convert, *arguments)
