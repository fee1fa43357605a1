"""Predicts how long work runs: its own estimate, corrected by what batches of its kind took."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from farpoint_server.engine.types import Work

# Shorter batches say more of the way to the engine's thread than of the work.
LEAST_NS = 2_000_000
# Of a batch against all before it: some ten batches are remembered.
WEIGHT = 0.1
# However wrong an estimate is or a machine is loaded, work is not taken for nothing or for ever.
LEAST, MOST = 1 / 16, 16.0
# Batches after which a correction is trusted to refuse anything.
KNOWN = 5


@dataclass
class _Ratio:
    """Measured over estimated time, each a decaying sum, so that long batches weigh more."""

    measured: float = 0.0
    estimated: float = 0.0
    batches: int = 0

    @property
    def value(self) -> float:
        if not self.estimated:
            return 1.0
        return min(max(self.measured / self.estimated, LEAST), MOST)


class CostModel:
    """A running ratio of measured to estimated time for each kind of work and each of its sizes.

    What a large cloud waits for memory says nothing of a small one, so what is of about the same
    estimated time, to within a factor of four, has a ratio of its own.
    """

    def __init__(self) -> None:
        self._ratios: dict[tuple[str, int], _Ratio] = {}

    def predict_ns(self, work: Work[Any]) -> int:
        """Nanoseconds that work is predicted to run by itself."""
        ratio = self._ratios.get(_class_of(work))
        return work.cost_ns if ratio is None else int(ratio.value * work.cost_ns)

    def is_known(self, work: Work[Any]) -> bool:
        """Whether enough of its like was measured for a prediction to be relied on."""
        ratio = self._ratios.get(_class_of(work))
        return ratio is not None and ratio.batches >= KNOWN

    def observe(self, batch: Sequence[Work[Any]], measured_ns: float) -> None:
        """Learns from a batch of one kind, no request of which was given up."""
        total = sum(work.cost_ns for work in batch)
        if total < LEAST_NS:
            return
        estimated: dict[tuple[str, int], int] = {}
        for work in batch:
            key = _class_of(work)
            estimated[key] = estimated.get(key, 0) + work.cost_ns
        for key, part in estimated.items():
            ratio = self._ratios.setdefault(key, _Ratio())
            ratio.measured += measured_ns * part / total - WEIGHT * ratio.measured
            ratio.estimated += part - WEIGHT * ratio.estimated
            ratio.batches += 1


def _class_of(work: Work[Any]) -> tuple[str, int]:
    return work.kind, work.cost_ns.bit_length() // 2
