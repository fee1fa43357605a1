"""Our histogram shows what prometheus_client's own would show."""

from prometheus_client import CollectorRegistry, Histogram, disable_created_metrics
from prometheus_client.exposition import generate_latest

from farpoint_server.observability.metrics.distribution import Distribution

BOUNDS = (0.0005, 0.01, 1, 2.5, 4**5, 4**13)
VALUES = (0.0, 0.0005, 0.00051, 1, 1.0000001, 3, 1e12)


def test_it_shows_what_a_histogram_shows():
    disable_created_metrics()
    ours, theirs = CollectorRegistry(), CollectorRegistry()
    plain = Distribution("plain", "Without labels.", BOUNDS, ours)
    named = Distribution("named", "With labels.", BOUNDS, ours, ("rpc", "phase"))
    usual_plain = Histogram("plain", "Without labels.", buckets=BOUNDS, registry=theirs)
    usual = Histogram("named", "With labels.", ("rpc", "phase"), buckets=BOUNDS, registry=theirs)
    assert generate_latest(ours) == generate_latest(theirs)
    for value in VALUES:
        plain.series().observe(value)
        usual_plain.observe(value)
        for phase in ("queue", "compute"):
            named.series("a.B/C", phase).observe(value)
            usual.labels("a.B/C", phase).observe(value)
    assert generate_latest(ours) == generate_latest(theirs)
