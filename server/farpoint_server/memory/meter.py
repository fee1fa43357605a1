"""What forwards use, and what the next one is therefore predicted to use."""

from collections.abc import Callable
from typing import TypeVar

from farpoint_server.memory.allocator import Allocator
from farpoint_server.memory.estimate import Correction, Demand

# Smaller batches say more of the noise than of the prediction.
OBSERVED_BYTES = 1 << 20

T = TypeVar("T")


class Meter:
    """Watches the forwards of one device, one at a time."""

    def __init__(self, allocator: Allocator, clock: Callable[[], float]) -> None:
        self.correction = Correction()
        self._allocator = allocator
        self._clock = clock
        self._demand = Demand()

    @property
    def demand(self) -> int:
        """Decaying maximum of what one batch used, in bytes."""
        return self._demand.now(self._clock())

    def watch(self, forward: Callable[[], T], predicted: int) -> T:
        """Runs a forward, and learns from what it took if it is large enough to tell."""
        if predicted < OBSERVED_BYTES:
            return forward()
        self._allocator.begin_peak()
        answer = forward()
        peak = self._allocator.peak()
        if peak is not None:
            self.correction = self.correction.observe(predicted, peak)
        self._demand = self._demand.observe(predicted if peak is None else peak, self._clock())
        return answer

    def ran_out(self) -> None:
        """A forward was predicted too small."""
        self.correction = self.correction.after_oom()
