"""/metrics and /healthz, and peers that behave badly."""

import socket
import urllib.error
import urllib.request

import pytest
from prometheus_client import CollectorRegistry, Counter
from prometheus_client.parser import text_string_to_metric_families

from farpoint_server.errors import AddressUnavailableError
from farpoint_server.observability.http import HttpEndpoint


@pytest.fixture(scope="module")
def health():
    return {"serving": True}


@pytest.fixture(scope="module")
def endpoint(health):
    registry = CollectorRegistry()
    Counter("farpoint_test", "A test.", registry=registry).inc(3)
    endpoint = HttpEndpoint("127.0.0.1:0", registry, lambda: health["serving"])
    endpoint.start()
    yield endpoint
    endpoint.stop()


def get(endpoint, path):
    try:
        with urllib.request.urlopen(f"http://{endpoint.address}{path}", timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_metrics_are_what_prometheus_reads(endpoint):
    status, text = get(endpoint, "/metrics")
    samples = [s for family in text_string_to_metric_families(text) for s in family.samples]
    assert status == 200
    assert ("farpoint_test_total", 3.0) in [(sample.name, sample.value) for sample in samples]


def test_health_follows_the_server(endpoint, health):
    assert get(endpoint, "/healthz") == (200, "SERVING\n")
    health["serving"] = False
    assert get(endpoint, "/healthz") == (503, "NOT_SERVING\n")
    health["serving"] = True


@pytest.mark.parametrize("path", ["/", "/metrics/x", "/../etc/passwd"])
def test_there_is_nothing_else(endpoint, path):
    assert get(endpoint, path)[0] == 404


def test_a_peer_that_says_nothing_or_nonsense_holds_up_nobody(endpoint):
    host, port = endpoint.address.split(":")
    with (
        socket.create_connection((host, int(port))),
        socket.create_connection((host, int(port))) as rude,
    ):
        rude.sendall(b"\x16\x03\x01 no HTTP\r\n\r\n")
        assert get(endpoint, "/healthz")[0] == 200


def test_a_port_in_use_is_named(endpoint):
    with pytest.raises(AddressUnavailableError, match=f"--http-listen {endpoint.address}"):
        HttpEndpoint(endpoint.address, CollectorRegistry(), lambda: True)
