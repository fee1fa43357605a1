"""Open Inference Protocol v2 over REST, with Triton's extensions: a path for each unary RPC."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from starlette.datastructures import Headers
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from farpoint_server.services.open_inference.rest_forms import CallForm, InferForm
from farpoint_server.services.open_inference.servicer import SERVICE
from farpoint_server.transport.http.exchange import Exchange, Form

# In braces are fields of the request, whose others are in the body; what is in brackets may be
# left out.
PATHS = (
    ("GET", "/v2", "ServerMetadata"),
    ("GET", "/v2/health/live", "ServerLive"),
    ("GET", "/v2/health/ready", "ServerReady"),
    ("GET", "/v2/models/stats", "ModelStatistics"),
    ("GET", "/v2/models/{name}[/versions/{version}]", "ModelMetadata"),
    ("GET", "/v2/models/{name}[/versions/{version}]/ready", "ModelReady"),
    ("GET", "/v2/models/{name}[/versions/{version}]/config", "ModelConfig"),
    ("GET", "/v2/models/{name}[/versions/{version}]/stats", "ModelStatistics"),
    ("POST", "/v2/models/{name}[/versions/{version}]/infer", "ModelInfer"),
    ("POST", "/v2/repository/index", "RepositoryIndex"),
    ("POST", "/v2/repository/models/{model_name}/load", "RepositoryModelLoad"),
    ("POST", "/v2/repository/models/{model_name}/unload", "RepositoryModelUnload"),
)


def routes(exchange: Exchange) -> Sequence[BaseRoute]:
    """Routes for the application of HTTP.

    Args:
        exchange: Runs the calls, at which the servicer is registered.
    """
    return [
        Route(path, _Endpoint(exchange, method), methods=[verb])
        for verb, pattern, method in PATHS
        for path in _variants(pattern)
    ]


class _Endpoint:
    """ASGI application of one path, which stands for a method."""

    def __init__(self, exchange: Exchange, method: str) -> None:
        self._exchange = exchange
        self._method = f"/{SERVICE}/{method}"
        self._form: Callable[[Mapping[str, str], Headers], Form] = (
            InferForm if method == "ModelInfer" else partial(CallForm, method)
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        form = self._form(scope["path_params"], Headers(scope=scope))
        await self._exchange.run(scope, receive, send, self._method, form)


def _variants(pattern: str) -> Iterable[str]:
    """A path without its optional part, and with it."""
    before, _, rest = pattern.partition("[")
    optional, _, after = rest.partition("]")
    return (before + after, before + optional + after) if optional else (pattern,)
