"""HTTP routes of /metrics (Prometheus), /healthz and /readyz."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from farpoint_server.observability.metrics.merged import MergedMetrics


class Others(Protocol):
    """The other processes of the server, where there are some."""

    async def metrics(self) -> Mapping[int, str] | None:
        """What every process exposes, by its index; None where this one is alone."""
        ...

    async def serve(self) -> bool:
        """Whether any of them is healthy."""
        ...


def routes(
    registry: CollectorRegistry, is_serving: Callable[[], bool], others: Others
) -> Sequence[Route]:
    """Routes for the application of an HTTP server.

    Args:
        registry: What /metrics shows. It is read on a thread of its own: some hundred series take
            milliseconds, which the event loop does not have.
        is_serving: Whether this process is healthy.
        others: Whose metrics are shown too, and who may serve where this one does not.
    """
    scraper = ThreadPoolExecutor(1, "scrape")

    async def metrics(request: Request) -> Response:
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        texts = await others.metrics()
        shown = registry if texts is None else MergedMetrics(texts)
        text = await asyncio.get_running_loop().run_in_executor(scraper, encode, shown)
        return Response(text, headers={"Content-Type": content_type})

    return [Route("/metrics", metrics), *health_routes(is_serving, others)]


def health_routes(is_serving: Callable[[], bool], others: Others) -> Sequence[Route]:
    """/healthz and /readyz: 200 while the server is healthy, else 503.

    Of several processes one is enough: the kernel gives connections to those that listen, and the
    supervisor replaces the others.
    """

    async def health(_: Request) -> Response:
        if is_serving() or await others.serve():
            return PlainTextResponse("SERVING\n")
        return PlainTextResponse("NOT_SERVING\n", 503)

    return [Route("/healthz", health), Route("/readyz", health)]
