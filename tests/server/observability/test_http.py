"""/metrics, /healthz and /readyz, as an HTTP client sees them."""

import asyncio
import threading
import urllib.error
import urllib.request

import pytest
from prometheus_client import CollectorRegistry, Counter
from prometheus_client.parser import text_string_to_metric_families
from starlette.applications import Starlette

from farpoint_server.observability.http import routes
from farpoint_server.transport.http.server import HttpServer


class Others:
    """Other processes, which serve if `health` says so."""

    def __init__(self, health):
        self._health = health

    async def metrics(self):
        return None

    async def serve(self):
        return self._health["others"]


@pytest.fixture(scope="module")
def health():
    return {"serving": True, "others": False}


@pytest.fixture(scope="module")
def endpoint(health):
    """A server whose event loop is on another thread."""
    registry = CollectorRegistry()
    Counter("farpoint_test", "A test.", registry=registry).inc(3)
    endpoint = HttpServer("--http-listen", "127.0.0.1:0")
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    app = Starlette(routes=routes(registry, lambda: health["serving"], Others(health)))
    asyncio.run_coroutine_threadsafe(endpoint.start(app), loop).result(60)
    yield endpoint
    asyncio.run_coroutine_threadsafe(endpoint.stop(), loop).result(60)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(60)
    loop.close()


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


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_health_follows_the_server(endpoint, health, path):
    assert get(endpoint, path) == (200, "SERVING\n")
    health["serving"] = False
    assert get(endpoint, path) == (503, "NOT_SERVING\n")
    health["others"] = True
    assert get(endpoint, path) == (200, "SERVING\n")
    health |= {"serving": True, "others": False}


@pytest.mark.parametrize("path", ["/", "/metrics/x", "/../etc/passwd"])
def test_there_is_nothing_else(endpoint, path):
    assert get(endpoint, path)[0] == 404
