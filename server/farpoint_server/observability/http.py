"""HTTP routes of /metrics (Prometheus), /healthz and /readyz."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route


def metrics_route(
    registry: CollectorRegistry, read_all: Callable[[], Awaitable[Mapping[str, str] | None]]
) -> Route:
    """The route /metrics for the application of an HTTP server.

    Args:
        registry: Of this process. It is read on a thread of its own: some hundred series take
            milliseconds, which the event loop does not have.
        read_all: The exposition of every process, by its name; None where this one is alone.
    """
    scraper = ThreadPoolExecutor(1, "scrape")

    async def metrics(request: Request) -> Response:
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        texts = await read_all()
        shown = registry if texts is None else MergedMetrics(texts)
        text = await asyncio.get_running_loop().run_in_executor(scraper, encode, shown)
        return Response(text, headers={"Content-Type": content_type})

    return Route("/metrics", metrics)


def health_routes(serves: Callable[[], bool]) -> Sequence[Route]:
    """/healthz and /readyz: 200 while the server is healthy, else 503."""

    async def health(_: Request) -> Response:
        if serves():
            return PlainTextResponse("SERVING\n")
        return PlainTextResponse("NOT_SERVING\n", 503)

    return [Route("/healthz", health), Route("/readyz", health)]


class MergedMetrics(CollectorRegistry):
    """The metrics of several processes, each series with the label `process`; encoded once.

    They are not added up: a replaced process begins at 0, which looks like a restart of all in a
    sum, and of a gauge only the reader knows whether a sum, a maximum or an average is meant.

    Args:
        texts: The exposition of each process, by its name.
    """

    def __init__(self, texts: Mapping[str, str]) -> None:
        super().__init__()
        self._texts = texts

    def collect(self) -> Iterable[Metric]:
        """The families of all processes, with the samples of each family together."""
        families: dict[str, Metric] = {}
        for name, text in sorted(self._texts.items()):
            for family in text_string_to_metric_families(text):
                merged = families.setdefault(
                    family.name, Metric(family.name, family.documentation, family.type)
                )
                merged.samples += [_labelled(sample, name) for sample in family.samples]
        return families.values()


def _labelled(sample: Sample, process: str) -> Sample:
    return sample._replace(labels={**sample.labels, "process": process})
