"""Prometheus metrics of the batches on their way to an engine."""

from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any

from farpoint_server.engine.types import Batch, Clouds, Samples
from farpoint_server.errors import ServiceError
from farpoint_server.observability.metrics.instruments import Instruments
from farpoint_server.scheduling.batcher import Engine


@dataclass(frozen=True)
class BatchMeter:
    """An engine, for the batcher, that counts what it is given."""

    engine: Engine
    instruments: Instruments

    @property
    def depth(self) -> int:
        """As the engine's own."""
        return self.engine.depth

    def sample(self, batch: Batch) -> Coroutine[Any, Any, list[Samples | ServiceError]]:
        """As the engine's own."""
        self.instruments.batch_requests.observe(len(batch.requests))
        points = sum(len(clouds.points) for clouds in batch.requests)
        self.instruments.batch_points.observe(points)
        return self.engine.sample(batch)

    def sample_here(self, clouds: Clouds) -> Samples | None:
        """As the engine's own."""
        samples = self.engine.sample_here(clouds)
        if samples is not None:
            self.instruments.batch_requests.observe(1)
            self.instruments.batch_points.observe(len(clouds.points))
        return samples
