"""One request through a model, whatever protocol it came by."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from farpoint_server import request_context as call
from farpoint_server.codec import encode as codec
from farpoint_server.codec.sample_request import Limits
from farpoint_server.engine.types import Outcome, StageOutput
from farpoint_server.models.forward import EncodeWork
from farpoint_server.models.registry import LoadedModel, Registry
from farpoint_server.scheduling.admission import Admission
from farpoint_server.scheduling.batcher import Batcher

T = TypeVar("T")


@dataclass(frozen=True)
class Encoders:
    """What Encode and ModelInfer have in common."""

    registry: Registry
    batcher: Batcher
    limits: Limits
    admission: Admission
    threads: ThreadPoolExecutor

    async def run(
        self,
        model: LoadedModel,
        plan: codec.Plan,
        timeout_s: float | None,
        encode: Callable[[Sequence[StageOutput]], T],
    ) -> tuple[T, Outcome[list[StageOutput]]]:
        """What `encode` makes of the stages of a request that is admitted, and its times.

        Raises:
            ServiceError: a value is wrong, or the work cannot be done now.
        """
        loop = asyncio.get_running_loop()
        call.bind(points=plan.points.shape[0], clouds=len(plan.lengths), model=model.name)
        clouds = await loop.run_in_executor(self.threads, codec.decode, plan)
        encoded = await self.batcher.run(EncodeWork(model.encoders, clouds), timeout_s)
        answer = await loop.run_in_executor(self.threads, encode, encoded.result)
        call.bind(queue_ms=round(encoded.queue_ms, 3), compute_ms=round(encoded.compute_ms, 3))
        return answer, encoded
