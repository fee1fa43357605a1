"""Prometheus metrics of the batches on their way to an engine."""

from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any

from farpoint_server.engine.types import Answer, Batch, Work
from farpoint_server.errors import ServiceError
from farpoint_server.observability.metrics.instruments import Instruments
from farpoint_server.scheduling.lane import BatchRunner


@dataclass(frozen=True)
class BatchMeter:
    """An engine, for the batcher, that counts what it is given."""

    engine: BatchRunner
    instruments: Instruments

    @property
    def depth(self) -> int:
        """As the engine's own."""
        return self.engine.depth

    def run(self, batch: Batch[Answer]) -> Coroutine[Any, Any, list[Answer | ServiceError]]:
        """As the engine's own."""
        self.instruments.batch_requests.observe(len(batch))
        self.instruments.batch_points.observe(batch.point_count)
        return self.engine.run(batch)

    def run_inline_if_idle(self, work: Work[Answer]) -> Answer | None:
        """As the engine's own."""
        answer = self.engine.run_inline_if_idle(work)
        if answer is not None:
            self.instruments.batch_requests.observe(1)
            self.instruments.batch_points.observe(work.point_count)
        return answer
