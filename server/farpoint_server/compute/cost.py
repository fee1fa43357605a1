"""Predicted time of work, corrected by measured batches."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from farpoint_server.compute.work import Work

# Below this, handing work to a CPU's thread and back dominates the measurement; the estimates for a
# GPU include it.
MIN_NS = 2_000_000
# Of a batch against all before it: some ten batches are remembered.
WEIGHT = 0.1
# Clamp of the correction factor. A GPU takes hundreds of small clouds in the time of one.
MIN_RATIO, MAX_RATIO = 1 / 256, 16.0
# Batches after which a correction is trusted to refuse anything.
KNOWN = 5

_Class: TypeAlias = tuple[str, int]


@dataclass
class _Ratio:
    """Ratio of measured to estimated time, decaying sums, so that long batches weigh more."""

    measured: float = 0.0
    estimated: float = 0.0
    batches: int = 0

    @property
    def value(self) -> float:
        if not self.estimated:
            return 1.0
        return min(max(self.measured / self.estimated, MIN_RATIO), MAX_RATIO)

    def add(self, measured: float, estimated: float) -> None:
        """Adds a batch or its part."""
        self.measured += measured - WEIGHT * self.measured
        self.estimated += estimated - WEIGHT * self.estimated
        self.batches += 1


class CostModel:
    """A running ratio of measured to estimated time for each cost key and each size of work.

    What a large cloud waits for memory says nothing of a small one, so what is of about the same
    estimated time, to within a factor of four, has a ratio of its own. A device that runs the
    requests of a batch in parallel takes less for each than for one alone, which therefore
    has a ratio of its own too.

    Args:
        device_type: "cpu" or "cuda", for the estimates of work before anything was measured.
    """

    def __init__(self, device_type: str = "cpu") -> None:
        self.device_type = device_type
        self._ratios: dict[_Class, _Ratio] = {}
        self._alone: dict[_Class, _Ratio] = {}

    def predict_ns(self, work: Work[Any]) -> int:
        """Predicted nanoseconds for which work occupies the device."""
        return self._predict(self._ratios, work)

    def predict_alone_ns(self, work: Work[Any]) -> int:
        """Predicted nanoseconds from the start of work to its end."""
        return self._predict(self._alone, work)

    def is_known(self, work: Work[Any]) -> bool:
        """Whether enough similar work was measured for a reliable prediction."""
        ratio = self._ratios.get(self.class_of(work))
        return ratio is not None and ratio.batches >= KNOWN

    def observe(
        self, batch: Sequence[Work[Any]], measured_ns: float, elapsed_ns: float | None = None
    ) -> None:
        """Learns from a batch without cancelled requests.

        Args:
            batch: Its requests.
            measured_ns: Nanoseconds for which it alone occupied the device.
            elapsed_ns: From its start to its end, if that is longer: it overlapped with others.
        """
        estimates = [work.cost_ns(self.device_type) for work in batch]
        total = sum(estimates)
        if total < MIN_NS and self.device_type == "cpu":
            return
        estimated: dict[_Class, int] = {}
        for work, estimate in zip(batch, estimates, strict=True):
            key = _class_of(work, estimate)
            estimated[key] = estimated.get(key, 0) + estimate
        for key, part in estimated.items():
            self._ratios.setdefault(key, _Ratio()).add(measured_ns * part / total, part)
        if len(batch) == 1:
            self._alone.setdefault(key, _Ratio()).add(elapsed_ns or measured_ns, total)

    def observe_inline(self, work: Work[Any], measured_ns: float) -> None:
        """Learns from work on the event loop, however small: no thread is in between.

        Where it gave up, that is less than it would have taken.
        """
        estimate = work.cost_ns(self.device_type)
        key = _class_of(work, estimate)
        for ratios in (self._ratios, self._alone):
            ratios.setdefault(key, _Ratio()).add(measured_ns, estimate)

    def class_of(self, work: Work[Any]) -> _Class:
        """What similar work has in common: its kind, and about the same estimate."""
        return _class_of(work, work.cost_ns(self.device_type))

    def _predict(self, ratios: Mapping[_Class, _Ratio], work: Work[Any]) -> int:
        estimate = work.cost_ns(self.device_type)
        ratio = ratios.get(_class_of(work, estimate))
        return estimate if ratio is None else int(ratio.value * estimate)


def _class_of(work: Work[Any], estimate_ns: int) -> _Class:
    return work.cost_key, estimate_ns.bit_length() // 2
