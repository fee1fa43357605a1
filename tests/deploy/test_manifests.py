"""KServe, Compose, dashboard and alerts: valid, in step with the image and the metrics."""

import json
import os
import re
import shutil
import subprocess
import sys
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry
from tests.deploy.conftest import DEPLOY, need, read

from farpoint_server.compute.memory.snapshot import MemorySnapshot
from farpoint_server.observability.metrics import GAUGES, Instruments, MemoryCollector

ROOT = DEPLOY.parent
ALERTS, DASHBOARD = (f"helm/farpoint/files/{name}" for name in ("alerts.yaml", "farpoint.json"))
HARDENED = {"read_only": True, "cap_drop": ["ALL"], "security_opt": ["no-new-privileges:true"]}


def environment_of_image() -> dict[str, str]:
    """Variables that the Dockerfile sets for every container."""
    stage = (ROOT / "Dockerfile").read_text().partition("AS runtime\n")[2]
    return dict(re.findall(r"^(?:ENV)? +(FARPOINT_\w+)=(\S+)", stage, re.MULTILINE))


def test_kserve_serves_open_inference_over_grpc():
    schemas = need("kubernetes_validate", "kubernetes-validate")
    runtime, service = read(DEPLOY / "kserve" / "farpoint.yaml")
    pod = {"containers": runtime["spec"]["containers"], "volumes": runtime["spec"]["volumes"]}
    schemas.validate(
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": pod},
        "1.37.0",
        strict=True,
    )
    (container,) = pod["containers"]
    (port,) = container["ports"]
    listen = environment_of_image()["FARPOINT_LISTEN"]
    assert (port["name"], port["containerPort"]) == ("h2c", int(listen.rpartition(":")[2]))
    assert container["readinessProbe"]["grpc"]["service"] == "inference.GRPCInferenceService"
    model = service["spec"]["predictor"]["model"]
    assert model["runtime"] == runtime["metadata"]["name"]
    assert model["modelFormat"]["name"] == runtime["spec"]["supportedModelFormats"][0]["name"]
    assert model["protocolVersion"] in runtime["spec"]["protocolVersions"]
    assert "FARPOINT_HTTP_LISTEN" in environment_of_image()  # metrics
    assert runtime["spec"]["annotations"]["prometheus.kserve.io/port"] == "8080"


def compose() -> dict:
    (found,) = read(DEPLOY / "compose.yaml")
    return found


def test_compose_is_valid():
    need("check_jsonschema", "check-jsonschema")
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec"]
    done = subprocess.run(
        [*command, DEPLOY / "compose.yaml"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stdout


def test_compose_has_a_server_for_cpus_and_one_for_gpus():
    services = compose()["services"]
    for name, device in (("cpu", "cpu"), ("gpu", "cuda:0")):
        assert services[name]["profiles"] == [name]
        assert services[name]["environment"] == {"FARPOINT_DEVICE": device}
        assert HARDENED.items() <= services[name].items()
    assert services["gpu"]["build"]["target"] == "cuda"
    (device,) = services["gpu"]["deploy"]["resources"]["reservations"]["devices"]
    assert device == {"driver": "nvidia", "count": 1, "capabilities": ["gpu"]}
    assert "deploy" not in services["cpu"]


def test_compose_publishes_on_loopback_alone():
    for service in compose()["services"].values():
        assert all(port.startswith("127.0.0.1:") for port in service["ports"])


def inline(name: str) -> Any:
    """A file that Compose has inline."""
    return yaml.safe_load(compose()["configs"][name]["content"])


def test_compose_scrapes_the_server_and_shows_the_dashboard():
    services = compose()["services"]
    prometheus = inline("prometheus")
    (scrape,) = prometheus["scrape_configs"]
    host, _, port = scrape["static_configs"][0]["targets"][0].rpartition(":")
    for name in ("cpu", "gpu"):
        assert services[name]["networks"]["default"]["aliases"] == [host]
    assert environment_of_image()["FARPOINT_HTTP_LISTEN"] == f"0.0.0.0:{port}"
    mounts = dict(m.split(":")[:2] for s in services.values() for m in s.get("volumes", ()))
    (rules,) = prometheus["rule_files"]
    assert mounts[f"./{ALERTS}"] == f"/etc/prometheus/{rules}"
    (provider,) = inline("dashboards")["providers"]
    assert mounts[f"./{DASHBOARD}"].startswith(provider["options"]["path"])
    assert all((DEPLOY / source).exists() for source in mounts if source.startswith("./"))
    (source,) = inline("source")["datasources"]
    assert source["url"] == "http://prometheus:9090"
    assert source["isDefault"]


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
    dashboard = json.loads((DEPLOY / DASHBOARD).read_text())
    queries = [t["expr"] for panel in dashboard["panels"] for t in panel.get("targets", [])]
    asked = set().union(*map(families, queries))
    assert asked | set(LEFT_OUT) == exported()
    assert not asked & set(LEFT_OUT)


def test_panels_do_not_overlap():
    panels = json.loads((DEPLOY / DASHBOARD).read_text())["panels"]
    places: set[tuple[int, int]] = set()
    for panel in panels:
        at = panel["gridPos"]
        cells = {(at["x"] + i, at["y"] + j) for i in range(at["w"]) for j in range(at["h"])}
        assert not cells & places, panel["title"]
        assert max(x for x, _ in cells) < 24
        places |= cells
    assert len({panel["id"] for panel in panels}) == len(panels)


def test_every_alert_asks_for_metrics_that_are_there_and_is_tested():
    (rules,) = read(DEPLOY / ALERTS)
    alerts = {rule["alert"]: rule["expr"] for rule in rules["groups"][0]["rules"]}
    (tests,) = read(DEPLOY / "alerts_test.yaml")
    cases = [case for test in tests["tests"] for case in test["alert_rule_test"]]
    for alert, query in alerts.items():
        assert families(query) <= exported()
        fires = {bool(case["exp_alerts"]) for case in cases if case["alertname"] == alert}
        assert fires == {True, False}, alert


def test_promtool_finds_no_fault(tmp_path):
    if shutil.which("promtool") is None and not os.environ.get("REQUIRE_TEST_TOOLS"):
        pytest.skip("optional: promtool (Debian's package prometheus) is not here")
    shutil.copy(DEPLOY / ALERTS, tmp_path)
    config = tmp_path / "prometheus.yml"
    config.write_text(compose()["configs"]["prometheus"]["content"])
    for command in (("test", "rules", DEPLOY / "alerts_test.yaml"), ("check", "config", config)):
        done = subprocess.run(["promtool", *command], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr
