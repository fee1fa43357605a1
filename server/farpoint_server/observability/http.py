"""HTTP routes of /metrics (Prometheus), /healthz and /readyz."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route


class Others(Protocol):
    """The other processes of the server, where there are some."""

    async def metrics(self) -> Mapping[int, str] | None:
        """The exposition of every process, by its index; None where this one is alone."""
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


class MergedMetrics(CollectorRegistry):
    """The metrics of several processes, each series with the label `process`; encoded once.

    They are not added up: a replaced process begins at 0, which looks like a restart of all in a
    sum, and of a gauge only the reader knows whether a sum, a maximum or an average is meant.

    Args:
        texts: The exposition of each process, by its index.
    """

    def __init__(self, texts: Mapping[int, str]) -> None:
        super().__init__()
        self._texts = texts

    def collect(self) -> Iterable[Metric]:
        """The families of all processes; the format wants the samples of one family together."""
        families: dict[str, Metric] = {}
        for index, text in sorted(self._texts.items()):
            for family in text_string_to_metric_families(text):
                merged = families.setdefault(
                    family.name, Metric(family.name, family.documentation, family.type)
                )
                merged.samples += [_labelled(sample, index) for sample in family.samples]
        return families.values()


def _labelled(sample: Sample, process: int) -> Sample:
    return sample._replace(labels={**sample.labels, "process": str(process)})
