"""Accepts calls several at a time."""

import asyncio
import inspect
from collections.abc import Coroutine
from typing import Any

import grpc
import structlog

from farpoint_server.transport.grpc.handlers import Methods

try:
    from grpc._cython import cygrpc  # type: ignore[attr-defined]
except ImportError:  # it is gRPC's own, and need not be in each version
    cygrpc = None

# Of each method; more make no difference to the latency or number of calls.
AT_ONCE = 16
# What is used of gRPC's own, with its parameters.
USED = {
    "_handle_rpc": (
        *("method_name", "method_resolver", "interceptors", "rpc_state", "loop"),
        "concurrency_exceeded",
    ),
    "_schedule_rpc_coro": ("rpc_coro", "rpc_state", "loop", "method_name"),
    "_MethodResolver": (),
    "_RequestCallError": (),
    "AioServer._request_registered_call": ("self", "method"),
}
log = structlog.get_logger("farpoint")


class Acceptors:
    """Accept calls of some methods of a server that waits for several of each.

    gRPC's own loop waits for one call of a server, and takes six rounds of the event loop from one
    to the next: under load, most of a small call's time passes before it is accepted, and no turns
    of callers are fair to calls that are not seen. With a version of gRPC that lacks what is used
    here, its loop accepts all calls.

    Args:
        server: Not started yet.
        interceptor: The server's only one.
    """

    def __init__(self, server: grpc.aio.Server, interceptor: grpc.aio.ServerInterceptor) -> None:
        self._server, self._interceptor = server, interceptor
        self._methods: dict[str, grpc.RpcMethodHandler[Any, Any]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._is_possible = _has_what_is_used()
        if not self._is_possible:
            log.warning("calls are accepted one at a time", grpc=grpc.__version__)

    def add(self, service: str, methods: Methods) -> None:
        """Accepts calls of these methods, which are registered at the server, too."""
        if self._is_possible:
            self._server.add_registered_method_handlers(service, dict(methods))
            self._methods |= {f"/{service}/{name}": method for name, method in methods.items()}

    def start(self) -> None:
        """Accepts calls until the server, which has started, is stopped."""
        for method in self._methods:
            for _ in range(AT_ONCE):
                self._run(self._accept(method))

    async def _accept(self, method: str) -> None:
        core: Any = self._server._server  # type: ignore[attr-defined]
        loop, resolver = asyncio.get_running_loop(), cygrpc._MethodResolver([], self._methods)
        while core.is_running():
            try:
                state = await core._request_registered_call(method.encode())
            except cygrpc._RequestCallError:  # as the server stops
                continue
            call = cygrpc._handle_rpc(method, resolver, (self._interceptor,), state, loop, False)
            self._run(cygrpc._schedule_rpc_coro(call, state, loop, method))

    def _run(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _has_what_is_used() -> bool:
    for path, parameters in USED.items():
        found: Any = cygrpc
        for name in path.split("."):
            found = getattr(found, name, None)
        if found is None:
            return False
        try:
            if parameters and tuple(inspect.signature(found).parameters) != parameters:
                return False
        except (TypeError, ValueError):  # it has none that Python knows
            return False
    return True
