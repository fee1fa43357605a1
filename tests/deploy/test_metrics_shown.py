"""The dashboard and the alerts ask for metrics that are there; the dashboard shows each of them."""

import json
import os
import re
import shutil
import subprocess

import pytest
from prometheus_client import CollectorRegistry
from tests.deploy.conftest import DEPLOY, read

from farpoint_server.memory.snapshot import MemorySnapshot
from farpoint_server.observability.metrics import GAUGES, Instruments, MemoryCollector

PROMETHEUS = DEPLOY / "prometheus"
# Metrics without a panel, and why.
LEFT_OUT = {"farpoint_memory_idle_bytes": "reserved less allocated, which a panel has both"}


def exported() -> set[str]:
    """Families that the server exports."""
    registry = CollectorRegistry()
    Instruments(registry)
    registry.register(MemoryCollector(lambda: [MemorySnapshot("cpu")]))
    return {family.name for family in registry.collect()} | {f"farpoint_{name}" for name in GAUGES}


def families(query: str) -> set[str]:
    """The families that a query asks for."""
    names = re.findall(r"farpoint_\w+", query)
    return {re.sub("_(total|bucket|sum|count)$", "", name) for name in names}


def test_every_family_is_on_the_dashboard_or_named_as_left_out():
    dashboard = json.loads((DEPLOY / "grafana" / "farpoint.json").read_text())
    queries = [t["expr"] for panel in dashboard["panels"] for t in panel.get("targets", [])]
    asked = set().union(*map(families, queries))
    assert asked | set(LEFT_OUT) == exported()
    assert not asked & set(LEFT_OUT)


def test_panels_lie_beside_one_another():
    panels = json.loads((DEPLOY / "grafana" / "farpoint.json").read_text())["panels"]
    places: set[tuple[int, int]] = set()
    for panel in panels:
        at = panel["gridPos"]
        cells = {(at["x"] + i, at["y"] + j) for i in range(at["w"]) for j in range(at["h"])}
        assert not cells & places, panel["title"]
        assert max(x for x, _ in cells) < 24
        places |= cells
    assert len({panel["id"] for panel in panels}) == len(panels)


def test_every_alert_asks_for_metrics_that_are_there_and_is_tested():
    (rules,) = read(PROMETHEUS / "alerts.yaml")
    alerts = {rule["alert"]: rule["expr"] for rule in rules["groups"][0]["rules"]}
    (tests,) = read(PROMETHEUS / "alerts_test.yaml")
    cases = [case for test in tests["tests"] for case in test["alert_rule_test"]]
    for alert, query in alerts.items():
        assert families(query) <= exported()
        fires = {bool(case["exp_alerts"]) for case in cases if case["alertname"] == alert}
        assert fires == {True, False}, alert


@pytest.mark.parametrize(
    "arguments",
    [
        ("test", "rules", "alerts_test.yaml"),
        ("check", "config", "prometheus.yml"),
    ],
)
def test_promtool_finds_no_fault(arguments):
    if shutil.which("promtool") is None and not os.environ.get("REQUIRE_TEST_TOOLS"):
        pytest.skip("optional: promtool (Debian's package prometheus) is not here")
    done = subprocess.run(
        ["promtool", *arguments], cwd=PROMETHEUS, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr
