"""KServe and Compose: valid, in step with the image, and with metrics switched on."""

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.deploy.conftest import DEPLOY, need, read

ROOT = DEPLOY.parent
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


def test_compose_scrapes_the_server_and_shows_the_dashboard():
    services = compose()["services"]
    (prometheus,) = read(DEPLOY / "prometheus" / "prometheus.yml")
    (scrape,) = prometheus["scrape_configs"]
    host, _, port = scrape["static_configs"][0]["targets"][0].rpartition(":")
    for name in ("cpu", "gpu"):
        assert services[name]["networks"]["default"]["aliases"] == [host]
    assert environment_of_image()["FARPOINT_HTTP_LISTEN"] == f"0.0.0.0:{port}"
    assert [DEPLOY / "prometheus" / name for name in prometheus["rule_files"]] == [
        DEPLOY / "prometheus" / "alerts.yaml"
    ]
    mounts = dict(m.split(":")[:2] for s in services.values() for m in s.get("volumes", ()))
    sources = [Path(DEPLOY, source) for source in mounts if source.startswith("./")]
    assert sources
    assert all(source.exists() for source in sources)
    provisioning = DEPLOY / "grafana" / "provisioning"
    (provider,) = read(provisioning / "dashboards" / "farpoint.yaml")
    assert mounts["./grafana/farpoint.json"].startswith(provider["providers"][0]["options"]["path"])
    (source,) = read(provisioning / "datasources" / "prometheus.yaml")[0]["datasources"]
    assert source["url"] == "http://prometheus:9090"
    assert source["isDefault"]


def test_the_chart_links_to_the_alerts_and_the_dashboard_of_compose():
    files = DEPLOY / "helm" / "farpoint" / "files"
    assert os.path.realpath(files / "alerts.yaml") == str(DEPLOY / "prometheus" / "alerts.yaml")
    assert os.path.realpath(files / "farpoint.json") == str(DEPLOY / "grafana" / "farpoint.json")
