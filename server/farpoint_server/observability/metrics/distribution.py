"""A histogram that costs a request next to nothing."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from math import inf

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.core import HistogramMetricFamily
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString


class Series:
    """The values of one set of labels."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Counts a value, in the first bucket whose bound is not below it."""
        self.counts[bisect_left(self._bounds, value)] += 1
        self.total += value


class Distribution(Collector):
    """What a `prometheus_client.Histogram` shows, without its locks: a request is in five of them.

    Only the event loop observes; a scrape on another thread may find the sum a value behind.

    Args:
        name: As it is shown.
        text: What it is.
        labels: Their names; without any there is one series, also before the first value.
        bounds: Of the buckets, ascending.
        registry: Where it is shown.
    """

    def __init__(
        self,
        name: str,
        text: str,
        bounds: Sequence[float],
        registry: CollectorRegistry,
        labels: Sequence[str] = (),
    ) -> None:
        self._name, self._text, self._labels = name, text, labels
        self._bounds = tuple(bounds)
        self._series: dict[tuple[str, ...], Series] = {}
        if not labels:
            self.series()
        registry.register(self)

    def series(self, *values: str) -> Series:
        """The series of these labels."""
        found = self._series.get(values)
        if found is None:
            found = self._series[values] = Series(self._bounds)
        return found

    def collect(self) -> Iterable[Metric]:
        """Called by the registry."""
        family = HistogramMetricFamily(self._name, self._text, labels=self._labels)
        for values, series in list(self._series.items()):
            family.add_metric(values, self._buckets(series), series.total)
        yield family

    def _buckets(self, series: Series) -> list[tuple[str, float]]:
        buckets: list[tuple[str, float]] = []
        below = 0
        for bound, count in zip((*self._bounds, inf), list(series.counts), strict=True):
            below += count
            buckets.append((floatToGoString(bound), below))  # type: ignore[no-untyped-call]
        return buckets
