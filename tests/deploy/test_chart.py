"""The Helm chart: rendered objects are valid and agree with docs/deployment.md."""

from importlib.metadata import version
from typing import Any

import pytest
from tests.deploy.conftest import CHART, container_of, environment_of, need, of_kind, read

from farpoint_server.config.settings import Settings

TLS = {"tls": {"secretName": "certificate", "clientCertificates": True}}
EVERYTHING: dict[str, Any] = {
    **TLS,
    "image": {"digest": f"sha256:{'0' * 64}"},
    "imagePullSecrets": [{"name": "registry"}],
    "gpu": {"count": 2},
    "tokens": {"secretName": "tokens"},
    "settings": {"max_points_in_flight": 1 << 25, "http_origins": ["https://a", "https://b"]},
    "autoscaling": {"kind": "keda"},
    "networkPolicy": {"egress": [{"ports": [{"port": 4317}]}]},
    "monitoring": {
        **{"serviceMonitor": True, "alerts": True, "dashboard": True},
        "labels": {"release": "prometheus"},
    },
    "env": [{"name": "OTEL_SERVICE_NAME", "value": "farpoint"}],
    "volumes": [{"name": "models", "emptyDir": {}}],
    "volumeMounts": [{"name": "models", "mountPath": "/models"}],
    "podAnnotations": {"a": "b"},
    "podLabels": {"a": "b"},
    "nodeSelector": {"pool": "gpu"},
    "tolerations": [{"key": "spot", "operator": "Exists"}],
    "affinity": {"nodeAffinity": {}},
    "priorityClassName": "serving",
    "runtimeClassName": "nvidia",
    "serviceAccountName": "farpoint",
    "service": {"annotations": {"a": "b"}},
}


def test_the_chart_is_linted():
    lint = need("helm_python", "helm-python-sdk").lint
    found = lint(CHART, EVERYTHING, strict=True)
    assert [m["error"] for m in found["messages"]] == ["icon is recommended"]
    assert found["errors"] == []


@pytest.mark.parametrize("values", [{}, EVERYTHING, {"autoscaling": {"kind": "hpa"}}])
@pytest.mark.parametrize("kubernetes", ["1.27.0", "1.37.0"])
def test_every_object_is_valid(render, values, kubernetes):
    schemas = need("kubernetes_validate", "kubernetes-validate")
    for found in render(values):
        # No package carries the schemas of custom resources.
        if "." not in found["apiVersion"].split("/")[0].removesuffix(".k8s.io"):
            schemas.validate(found, kubernetes, strict=True)


def test_every_value_is_described_and_no_other_is_taken(chart):
    described = chart.schema["properties"]
    assert set(chart.values) == set(described) - {"global"}
    for values in (
        {"replicas": 3},
        {"gpu": {"counts": 1}},
        {"image": {"digest": "sha256:1"}},
        {"autoscaling": {"kind": "vpa"}},
        {"tls": {"clientCertificates": True}},
        {"settings": {"listen": "127.0.0.1:1"}},
        {"settings": {"drain_timeout_s": "long"}},
    ):
        with pytest.raises(need("helm_python", "helm-python-sdk").HelmError):
            chart.render(values, name="farpoint", namespace="sampling")


@pytest.mark.parametrize("values", [{}, EVERYTHING])
def test_every_variable_is_a_setting_of_the_server(render, values):
    names = {f"FARPOINT_{name.upper()}" for name in Settings.model_fields}
    environment = environment_of(render(values))
    assert {name for name in environment if name.startswith("FARPOINT_")} <= names
    assert environment["FARPOINT_PROBE_LISTEN"].endswith(":8081")


def test_numbers_and_lists_reach_the_server_as_it_reads_them(render, monkeypatch):
    values = {**EVERYTHING, "settings": EVERYTHING["settings"] | {"engine_timeout_s": 12.5}}
    for name, value in environment_of(render(values)).items():
        monkeypatch.setenv(name, value)
    settings = Settings()
    assert settings.max_points_in_flight == 1 << 25
    assert settings.http_origins == ("https://a", "https://b")
    assert settings.device == ("cuda:0", "cuda:1")
    assert (settings.engine_timeout_s, settings.max_connection_age_s) == (12.5, 300)


@pytest.mark.parametrize("values", [{}, TLS, EVERYTHING])
def test_probes_ask_a_port_in_plain_text_whatever_the_others_speak(render, values):
    container = container_of(render(values))
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    for probe, path in (
        ("startup", "/healthz"),
        ("readiness", "/readyz"),
        ("liveness", "/healthz"),
    ):
        assert container[f"{probe}Probe"]["httpGet"] == {"path": path, "port": "probe"}
    assert environment_of(render(values))["FARPOINT_PROBE_LISTEN"] == f"0.0.0.0:{ports['probe']}"


def test_a_pod_has_more_time_to_end_than_a_drain_takes(render):
    for grace, timeout in ((5, 30), (0.25, 120), (7.5, 600.5)):
        settings = {"drain_grace_s": grace, "drain_timeout_s": timeout}
        pod = of_kind(render({"settings": settings}), "Deployment")["spec"]["template"]["spec"]
        assert grace + timeout + 10 <= pod["terminationGracePeriodSeconds"] < grace + timeout + 12


def test_metrics_are_on_and_scraped_once(render):
    objects = render({"monitoring": {"serviceMonitor": True}, **TLS})
    assert environment_of(objects)["FARPOINT_HTTP_LISTEN"] == "0.0.0.0:8080"
    monitor = of_kind(objects, "ServiceMonitor")["spec"]
    (endpoint,) = monitor["endpoints"]
    assert endpoint["scheme"] == "https"
    services = [found for found in objects if found["kind"] == "Service"]
    scraped = [
        port
        for service in services
        if monitor["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
        for port in service["spec"]["ports"]
        if port["name"] == endpoint["port"]
    ]
    assert len(scraped) == 1


def test_clients_find_every_pod_by_the_headless_service(render):
    services = [found for found in render() if found["kind"] == "Service"]
    headless = {s["metadata"]["name"]: s["spec"].get("clusterIP") for s in services}
    assert headless == {"farpoint": "None", "farpoint-http": None}


def test_gpus_are_asked_for_and_named(render):
    objects = render({"gpu": {"count": 2}})
    assert container_of(objects)["resources"]["limits"]["nvidia.com/gpu"] == 2
    assert environment_of(objects)["FARPOINT_DEVICE"] == "cuda:0,cuda:1"
    assert container_of(objects)["image"].endswith("-cuda")
    assert of_kind(objects, "Deployment")["spec"]["strategy"]["rollingUpdate"]["maxSurge"] == 0
    assert "nvidia.com/gpu" not in str(render())
    assert environment_of(render())["FARPOINT_DEVICE"] == "cpu"


def test_autoscaling_looks_at_queued_milliseconds_and_owns_the_replicas(render):
    fixed = render()
    assert of_kind(fixed, "Deployment")["spec"]["replicas"] == 2
    hpa = render({"autoscaling": {"kind": "hpa", "queuedMilliseconds": 150}})
    metric = of_kind(hpa, "HorizontalPodAutoscaler")["spec"]["metrics"][0]["pods"]
    assert metric["metric"]["name"] == "farpoint_queue_seconds"
    assert metric["target"]["averageValue"] == "150m"  # of a second
    keda = render({"autoscaling": {"kind": "keda", "queuedMilliseconds": 150}})
    trigger = of_kind(keda, "ScaledObject")["spec"]["triggers"][0]["metadata"]
    assert "1000 * avg_over_time(farpoint_queue_seconds{" in trigger["query"]
    assert trigger["threshold"] == "150"
    for objects in (hpa, keda):
        assert "replicas" not in of_kind(objects, "Deployment")["spec"]


def test_a_pod_runs_as_the_image_is_tested(render):
    pod = of_kind(render(), "Deployment")["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsUser"] == 10001
    assert pod["securityContext"]["runAsNonRoot"]
    assert container_of(render())["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert not pod["automountServiceAccountToken"]
    assert not pod["enableServiceLinks"]  # FARPOINT_HTTP_PORT=tcp://... would look like a setting


def test_secrets_are_mounted_where_the_server_looks_for_them(render):
    objects = render(EVERYTHING)
    mounts = {m["name"]: m["mountPath"] for m in container_of(objects)["volumeMounts"]}
    environment = environment_of(objects)
    for variable, secret in (
        ("TLS_CERTIFICATE", "tls"),
        ("TLS_KEY", "tls"),
        ("TLS_CLIENT_CA", "tls"),
        ("TOKENS_FILE", "tokens"),
    ):
        assert environment[f"FARPOINT_{variable}"].startswith(f"{mounts[secret]}/")
    volumes = of_kind(objects, "Deployment")["spec"]["template"]["spec"]["volumes"]
    secrets = {v["name"]: v["secret"]["secretName"] for v in volumes if "secret" in v}
    assert secrets == {"tls": "certificate", "tokens": "tokens"}


def test_only_the_named_may_call(render):
    policy = of_kind(render(), "NetworkPolicy")["spec"]
    callers, scrapers = policy["ingress"]
    assert callers == {"from": [{"podSelector": {}}], "ports": [{"port": "grpc"}, {"port": "http"}]}
    assert scrapers["ports"] == [{"port": "http"}]
    without = render({"networkPolicy": {"enabled": False}})
    assert "NetworkPolicy" not in {found["kind"] for found in without}


def test_two_releases_select_their_own_pods(render):
    def selector(name: str) -> Any:
        return of_kind(render(name=name), "Deployment")["spec"]["selector"]["matchLabels"]

    assert selector("a") != selector("b")
    names = {found["metadata"]["name"] for found in render(name="a")}
    assert all(name.startswith("a-farpoint") for name in names)


def test_the_test_pod_is_no_endpoint_of_the_services(render):
    pod = of_kind(render(), "Pod")
    selected = of_kind(render(), "Deployment")["spec"]["selector"]["matchLabels"]
    assert not selected.items() <= pod["metadata"]["labels"].items()


def test_the_chart_is_of_this_version():
    (chart,) = read(CHART / "Chart.yaml")
    assert chart["version"] == chart["appVersion"]
    if "dev" not in (released := version("farpoint-server")):
        assert chart["appVersion"] == released
