"""What is read at a scrape: the state of the server at that moment."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector


@dataclass(frozen=True)
class Gauge:
    """A number that is asked for at each scrape, on the thread of the scrape."""

    name: str
    help: str
    read: Callable[[], float]


class State(Collector):
    """Gauges as metrics."""

    def __init__(self, *gauges: Gauge) -> None:
        self._gauges = gauges

    def collect(self) -> Iterable[Metric]:
        """Called by the registry."""
        for gauge in self._gauges:
            yield GaugeMetricFamily(gauge.name, gauge.help, gauge.read())
