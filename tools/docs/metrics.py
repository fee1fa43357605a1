"""Markdown table of the server's Prometheus metrics, from the objects that export them."""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Metric

from farpoint_server.observability.metrics import GAUGES, Instruments, MemoryCollector

INTRODUCTION = """\
# Metrics

What `/metrics` at `--http-listen` has for Prometheus, made from the objects that export it.
[Operations](../operations.md#metrics) says what to watch. `process_*` are those of
`prometheus_client`: CPU seconds, memory, open files, start time.

| metric | type | labels | |
|---|---|---|---|
"""


def render_metrics() -> str:
    """One page; a counter's name ends in `_total`, as it does where it is scraped."""
    instruments = Instruments(CollectorRegistry())
    metrics = [
        (metric, instrument._labelnames)
        for instrument in vars(instruments).values()
        for metric in instrument.collect()
    ]
    metrics += [(Metric(f"farpoint_{name}", text, "gauge"), ()) for name, text in GAUGES.items()]
    metrics += [
        (family, getattr(family, "_labelnames", ())) for family in MemoryCollector(list).collect()
    ]
    return INTRODUCTION + "\n".join(_rows(metrics)) + "\n"


def _rows(metrics: list[tuple[Metric, tuple[str, ...]]]) -> Iterator[str]:
    for metric, labels in metrics:
        name = metric.name + "_total" * (metric.type == "counter")
        shown = ", ".join(f"`{label}`" for label in labels)
        text = metric.documentation.replace("|", r"\|")
        yield f"| `{name}` | {metric.type} | {shown} | {text} |"
