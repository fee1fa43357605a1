"""HTTP routes of /metrics (Prometheus), /healthz and /readyz."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route


def routes(registry: CollectorRegistry, is_serving: Callable[[], bool]) -> Sequence[Route]:
    """Routes for the application of an HTTP server.

    Args:
        registry: What /metrics shows. It is read on a thread of its own: some hundred series take
            milliseconds, which the event loop does not have.
        is_serving: Whether /healthz and /readyz say 200 or 503.
    """
    scraper = ThreadPoolExecutor(1, "scrape")

    async def metrics(request: Request) -> Response:
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        text = await asyncio.get_running_loop().run_in_executor(scraper, encode, registry)
        return Response(text, headers={"Content-Type": content_type})

    return [Route("/metrics", metrics), *health_routes(is_serving)]


def health_routes(is_serving: Callable[[], bool]) -> Sequence[Route]:
    """/healthz and /readyz: 200 while the server is healthy, else 503."""

    async def health(_: Request) -> Response:
        if is_serving():
            return PlainTextResponse("SERVING\n")
        return PlainTextResponse("NOT_SERVING\n", 503)

    return [Route("/healthz", health), Route("/readyz", health)]
