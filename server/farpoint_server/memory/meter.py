"""What forwards use, and what the next one is therefore predicted to use."""

from collections.abc import Callable
from typing import TypeVar

from farpoint_server.memory.allocator import Allocator
from farpoint_server.memory.estimate import Correction, Demand

# Smaller batches say more of the noise than of the prediction.
OBSERVED_BYTES = 1 << 20
# A look at the heap of a process takes about 0.4 ms, more than all the rest of a small batch.
LOOK_EVERY_S = 0.1

T = TypeVar("T")


class Meter:
    """Watches the forwards of one device, one at a time."""

    def __init__(self, allocator: Allocator, clock: Callable[[], float]) -> None:
        self.correction = Correction()
        self._allocator = allocator
        self._clock = clock
        self._demand = Demand()
        self._looked = -LOOK_EVERY_S
        self._largest = 0

    @property
    def demand(self) -> int:
        """Decaying maximum of what one batch used, in bytes."""
        return self._demand.now(self._clock())

    def watch(self, forward: Callable[[], T], predicted: int) -> T:
        """Runs a forward, and learns from what it took if it is large enough to tell."""
        if predicted < OBSERVED_BYTES:
            return forward()
        if not self._is_due(predicted):
            self._demand = self._demand.observe(self.correction.apply(predicted), self._clock())
            return forward()
        self._allocator.begin_peak()
        answer = forward()
        peak = self._allocator.peak()
        if peak is not None:
            self.correction = self.correction.observe(predicted, peak)
        self._demand = self._demand.observe(predicted if peak is None else peak, self._clock())
        return answer

    def _is_due(self, predicted: int) -> bool:
        """Whether to look: now and then, and at whatever is larger than the last that was seen."""
        now = self._clock()
        if now - self._looked < LOOK_EVERY_S and predicted <= self._largest:
            return False
        self._looked, self._largest = now, predicted
        return True

    def ran_out(self) -> None:
        """A forward was predicted too small."""
        self.correction = self.correction.after_oom()
