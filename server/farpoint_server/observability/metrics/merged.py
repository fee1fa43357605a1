"""The metrics of several processes as one exposition, each series with the label `process`.

They are not added up: a process that is replaced begins at 0, which Prometheus deals with in a
series of its own, while a sum that falls would look like a restart of all of them. And of a gauge
only the reader knows whether a sum, a maximum or an average is meant.
"""

from collections.abc import Iterable, Mapping

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample


class MergedMetrics(CollectorRegistry):
    """A registry to be encoded once.

    Args:
        texts: What each process exposes, by its index.
    """

    def __init__(self, texts: Mapping[int, str]) -> None:
        super().__init__()
        self._texts = texts

    def collect(self) -> Iterable[Metric]:
        """The families of all processes; the samples of one family together, as is the format."""
        families: dict[str, Metric] = {}
        for index, text in sorted(self._texts.items()):
            for family in text_string_to_metric_families(text):
                merged = families.setdefault(
                    family.name, Metric(family.name, family.documentation, family.type)
                )
                merged.samples += [_labelled(sample, index) for sample in family.samples]
        return families.values()


def _labelled(sample: Sample, process: int) -> Sample:
    return sample._replace(labels={**sample.labels, "process": str(process)})
