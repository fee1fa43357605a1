"""Predicts the peak device memory of a batch, and learns from what was used."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypeVar

from farpoint_server.memory.allocator import Allocator

# Both caching allocators round sizes up to this.
ROUNDING = 512
MARGIN = 1.25
# Per point: coordinates, distance to the samples, and the order in which a large cloud is searched.
POINT_TENSORS = (12, 4, 16)
# Per sample: row, distance, and the coordinates of the copy that goes back.
SAMPLE_TENSORS = (4, 4, 12)
CLOUD_BYTES = 3 * 8
# Per point, of voxel grids and random rows: coordinates in float64, voxels, their numbers, sorted
# and back; 246 were seen.
METHOD_POINT_BYTES = 256

WEIGHT = 0.2
LEAST, MOST = 0.25, 4.0
# What a model takes is hardly known before it ran.
LEAST_OF_MODEL, MOST_OF_MODEL = 1 / 64, 64.0
OOM_FACTOR = 1.5

# Smaller batches say more of the noise than of the prediction.
OBSERVED_BYTES = 1 << 20
# A look at the heap of a process takes about 0.4 ms, more than all the rest of a small batch.
LOOK_EVERY_S = 0.1

# The kind of a batch of Sample.
SAMPLE = "sample"

T = TypeVar("T")


# A request is predicted three times on its way, and streams repeat their sizes.
@lru_cache(1024)
def sample_bytes(points: int, clouds: int, samples: int) -> int:
    """Bytes that sampling takes on the device at most, inputs and answers included."""
    tensors = [points * size for size in POINT_TENSORS]
    tensors += [samples * size for size in SAMPLE_TENSORS]
    tensors.append(clouds * CLOUD_BYTES)
    return int(MARGIN * sum(-(-size // ROUNDING) * ROUNDING for size in tensors))


def method_bytes(points: int) -> int:
    """Bytes that a voxel grid or random rows take on the device at most."""
    return int(MARGIN * METHOD_POINT_BYTES * points)


@dataclass(frozen=True)
class Correction:
    """What predictions are multiplied by: an average of observed / predicted, newest first."""

    factor: float = 1.0
    error: float = 0.0
    """Average of |observed / corrected prediction - 1|."""
    observations: int = 0
    least: float = LEAST
    most: float = MOST

    def apply(self, predicted: int) -> int:
        """The corrected prediction, in bytes."""
        return int(self.factor * predicted)

    def optimistic(self, predicted: int) -> int:
        """The least that has to be expected, so that a bad correction refuses nobody for good."""
        return int(min(1.0, self.factor) * predicted)

    def observe(self, predicted: int, observed: int) -> "Correction":
        """After a batch that was predicted, without correction, to take `predicted` bytes."""
        ratio = min(max(observed / predicted, self.least), self.most)
        error = abs(observed / max(1, self.apply(predicted)) - 1)
        if self.observations == 0:
            return replace(self, factor=ratio, error=error, observations=1)
        return replace(
            self,
            factor=self.factor + WEIGHT * (ratio - self.factor),
            error=self.error + WEIGHT * (error - self.error),
            observations=self.observations + 1,
        )

    def after_oom(self) -> "Correction":
        """Predictions were too small."""
        return replace(self, factor=min(self.factor * OOM_FACTOR, self.most))


_OF_SAMPLE = Correction()
_OF_MODEL = Correction(least=LEAST_OF_MODEL, most=MOST_OF_MODEL)


@dataclass(frozen=True)
class Demand:
    """A maximum of bytes that halves every `half_life_s`."""

    half_life_s: float = 300.0
    peak: int = 0
    at: float = 0.0

    def now(self, now: float) -> int:
        """The decayed maximum, at `now` seconds."""
        return int(self.peak * 0.5 ** ((now - self.at) / self.half_life_s))

    def observe(self, size: int, now: float) -> "Demand":
        """With one more batch, which used `size` bytes."""
        return replace(self, peak=max(size, self.now(now)), at=now)


class UsageTracker:
    """Learns from the peak memory of the batches of one device, for each kind by itself.

    Only from those beside which no other large one ran: the peak of both says nothing of either.
    """

    def __init__(self, allocator: Allocator, clock: Callable[[], float]) -> None:
        self.corrections: dict[str, Correction] = {}
        """By kind: of Sample, and of each model."""
        self._allocator = allocator
        self._clock = clock
        self._demand = Demand()
        self._looked = -LOOK_EVERY_S
        self._largest = 0
        self._changed = threading.Lock()
        self._running = self._begun = 0

    @property
    def correction(self) -> Correction:
        """That of Sample."""
        return self.correction_of(SAMPLE)

    def correction_of(self, kind: str) -> Correction:
        """That of a kind; one that was not seen is predicted as it says itself."""
        unseen = _OF_SAMPLE if kind == SAMPLE else _OF_MODEL
        return self.corrections.get(kind, unseen)

    @property
    def demand(self) -> int:
        """Decaying maximum of what one batch used, in bytes."""
        return self._demand.now(self._clock())

    def watch(self, run: Callable[[], T], predicted: int, kind: str = SAMPLE) -> T:
        """Runs a batch, and learns from what it took if it is large enough to tell."""
        if predicted < OBSERVED_BYTES:
            return run()
        with self._changed:
            self._running += 1
            self._begun += 1
            looks, begun = self._running == 1 and self._is_due(predicted), self._begun
        try:
            if looks:
                return self._look(run, predicted, kind, begun)
            size = self.correction_of(kind).apply(predicted)
            self._demand = self._demand.observe(size, self._clock())
            return run()
        finally:
            with self._changed:
                self._running -= 1

    def _look(self, run: Callable[[], T], predicted: int, kind: str, begun: int) -> T:
        self._allocator.begin_peak()
        answer = run()
        peak = self._allocator.peak() if self._begun == begun else None
        if peak is not None:
            self.corrections[kind] = self.correction_of(kind).observe(predicted, peak)
        self._demand = self._demand.observe(predicted if peak is None else peak, self._clock())
        return answer

    def _is_due(self, predicted: int) -> bool:
        """Whether to look: now and then, and at whatever is larger than the last that was seen."""
        now = self._clock()
        if now - self._looked < LOOK_EVERY_S and predicted <= self._largest:
            return False
        self._looked, self._largest = now, predicted
        return True

    def ran_out(self, kind: str = SAMPLE) -> None:
        """A batch was predicted too small."""
        self.corrections[kind] = self.correction_of(kind).after_oom()
