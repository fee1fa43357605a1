"""The metrics of several processes as one exposition."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from farpoint_server.observability.metrics.merged import MergedMetrics


def exposition(calls: int, serving: int, seconds: float, *extra: str) -> str:
    registry = CollectorRegistry()
    Counter("calls", "Calls.", ("rpc",), registry=registry).labels("a").inc(calls)
    Gauge("serving", "Serving.", registry=registry).set(serving)
    Histogram("seconds", "Seconds.", buckets=(1, 2), registry=registry).observe(seconds)
    for name in extra:
        Gauge(name, "Of one alone.", registry=registry).set(5)
    return generate_latest(registry).decode()


def test_each_series_is_there_for_each_process_and_each_family_once():
    texts = {1: exposition(7, 0, 1.5, "alone"), 0: exposition(3, 1, 0.5)}
    text = generate_latest(MergedMetrics(texts)).decode()
    assert text.count("# TYPE calls_total counter") == 1
    values = {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    zero, one = ("process", "0"), ("process", "1")
    assert values["calls_total", zero, ("rpc", "a")] == 3
    assert values["calls_total", one, ("rpc", "a")] == 7
    assert (values["serving", zero], values["serving", one]) == (1, 0)
    assert values["seconds_bucket", ("le", "1.0"), zero] == 1
    assert values["seconds_bucket", ("le", "1.0"), one] == 0
    assert values["seconds_sum", one] == 1.5
    assert values["alone", one] == 5
    assert ("alone", zero) not in values
