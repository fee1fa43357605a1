"""/metrics, /healthz and /readyz, as an HTTP client sees them."""

import pytest
from prometheus_client import CollectorRegistry, Counter
from prometheus_client.parser import text_string_to_metric_families
from starlette.applications import Starlette
from tests.support.servers.asgi import ask

from farpoint_server.observability.http import routes


class Others:
    """Other processes, which serve if `health` says so."""

    def __init__(self, health):
        self._health = health

    async def metrics(self):
        return None

    async def serve(self):
        return self._health["others"]


@pytest.fixture
def health():
    return {"serving": True, "others": False}


@pytest.fixture
def get(health):
    registry = CollectorRegistry()
    Counter("farpoint_test", "A test.", registry=registry).inc(3)
    app = Starlette(routes=routes(registry, lambda: health["serving"], Others(health)))

    async def get(path):
        answer = await ask(app, path)
        return answer.status, answer.body.decode()

    return get


async def test_metrics_are_what_prometheus_reads(get):
    status, text = await get("/metrics")
    samples = [s for family in text_string_to_metric_families(text) for s in family.samples]
    assert status == 200
    assert ("farpoint_test_total", 3.0) in [(sample.name, sample.value) for sample in samples]


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
async def test_health_follows_the_server(get, health, path):
    assert await get(path) == (200, "SERVING\n")
    health["serving"] = False
    assert await get(path) == (503, "NOT_SERVING\n")
    health["others"] = True
    assert await get(path) == (200, "SERVING\n")


@pytest.mark.parametrize("path", ["/", "/metrics/x", "/../etc/passwd"])
async def test_there_is_nothing_else(get, path):
    assert (await get(path))[0] == 404
