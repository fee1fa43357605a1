"""How many bytes a batch will take, predicted from its sizes and corrected by what was seen."""

from dataclasses import dataclass, replace
from functools import lru_cache

# Both caching allocators round sizes up to this.
ROUNDING = 512
MARGIN = 1.25
# Per point: coordinates, distance to the samples, and the order in which a large cloud is searched.
POINT_TENSORS = (12, 4, 16)
# Per sample: row, distance, and the coordinates of the copy that goes back.
SAMPLE_TENSORS = (4, 4, 12)
CLOUD_BYTES = 3 * 8

WEIGHT = 0.2
LEAST, MOST = 0.25, 4.0
OOM_FACTOR = 1.5


# A request is predicted three times on its way, and streams repeat their sizes.
@lru_cache(1024)
def sample_bytes(points: int, clouds: int, samples: int) -> int:
    """Bytes that sampling takes on the device at most, inputs and answers included."""
    tensors = [points * size for size in POINT_TENSORS]
    tensors += [samples * size for size in SAMPLE_TENSORS]
    tensors.append(clouds * CLOUD_BYTES)
    return int(MARGIN * sum(-(-size // ROUNDING) * ROUNDING for size in tensors))


@dataclass(frozen=True)
class Correction:
    """What predictions are multiplied by: an average of observed / predicted, newest first."""

    factor: float = 1.0
    error: float = 0.0
    """Average of |observed / corrected prediction - 1|."""
    observations: int = 0

    def apply(self, predicted: int) -> int:
        """The corrected prediction, in bytes."""
        return int(self.factor * predicted)

    def optimistic(self, predicted: int) -> int:
        """The least that has to be expected, so that a bad correction refuses nobody for good."""
        return int(min(1.0, self.factor) * predicted)

    def observe(self, predicted: int, observed: int) -> "Correction":
        """After a forward that was predicted, without correction, to take `predicted` bytes."""
        ratio = min(max(observed / predicted, LEAST), MOST)
        error = abs(observed / max(1, self.apply(predicted)) - 1)
        if self.observations == 0:
            return Correction(ratio, error, 1)
        return Correction(
            factor=self.factor + WEIGHT * (ratio - self.factor),
            error=self.error + WEIGHT * (error - self.error),
            observations=self.observations + 1,
        )

    def after_oom(self) -> "Correction":
        """Predictions were too small."""
        return replace(self, factor=min(self.factor * OOM_FACTOR, MOST))


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
