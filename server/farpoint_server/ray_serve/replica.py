"""A replica of Ray Serve: the whole server but its ports, and a method for each RPC."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc
import structlog

from farpoint_server.config.settings import Settings
from farpoint_server.memory import environment, host
from farpoint_server.observability import logging
from farpoint_server.ray_serve.context import RayContext, ReplicaContext
from farpoint_server.ray_serve.methods import METHODS, Method

PROTOCOL = "ray"
REFUSAL_S = 0.1
log = structlog.get_logger("farpoint")


class Serialized(bytes):
    """A message as Ray Serve wants it, which asks what it sends for this method."""

    def SerializeToString(self) -> bytes:  # noqa: N802
        """Itself."""
        return bytes(self)


class Replica:
    """Answers calls with the server's own interceptors, limits, handlers, scheduler and engines.

    Ray has it in a process of its own, makes it on the event loop that runs its methods, asks
    `check_health` now and then, and calls `__del__` once it is drained.

    Args:
        settings: The server's, without addresses of gRPC: those are the proxies'.
    """

    async def __init__(self, settings: Settings) -> None:  # type: ignore[misc]
        # Later than in a process of our own: Ray has started threads, which keep their arenas.
        host.detect().set_options(os.environ)
        if set(settings.device) != {"cpu"}:
            expandable = settings.memory_expandable_segments == "on"
            environment.settle(os.environ, expandable=expandable)
        logging.configure(settings)
        from farpoint_server.app.server import App  # and torch, whose allocator is set up by now

        self._app = App(settings)
        log.info("ready", **await self._app.start())
        self._lost = asyncio.ensure_future(self._app.lost())
        # Of this object and not of its class, where the interpreter would call it as well.
        self.__del__ = self.shut_down

    async def answer(
        self, method: Method, messages: AsyncIterator[bytes], ray: RayContext
    ) -> Serialized:
        """One answer; an empty one where the call failed, with whose status Ray sends it."""
        context = ReplicaContext(ray, messages)
        call = self._app.calls.start(method.path, context, PROTOCOL)
        try:
            return Serialized(await call)
        except grpc.aio.AbortError:
            return Serialized()
        except Exception as error:
            await self._fail(context, error)
            return Serialized()
        finally:
            call.cancel()
            context.settle()
            context.close()

    async def answers(
        self, method: Method, messages: AsyncIterator[bytes], ray: RayContext
    ) -> AsyncIterator[Serialized]:
        """The answers of a stream; one that fails ends with an empty one, as its status needs."""
        context = ReplicaContext(ray, messages)
        call = self._app.calls.start(method.path, context, PROTOCOL)
        try:
            async for answer in context.answers(call):
                context.settle()
                yield Serialized(answer)
            call.result()
        except grpc.aio.AbortError:
            context.settle()
            yield Serialized()
        except Exception as error:
            await self._fail(context, error)
            context.settle()
            yield Serialized()
        finally:
            context.close()

    async def check_health(self) -> None:
        """Raises RuntimeError for a replica that is of no use: Ray then starts another one."""
        if self._lost.done():
            raise RuntimeError(self._lost.result())
        if not self._app.is_serving:
            raise RuntimeError("an engine hangs, or memory keeps running out")

    async def shut_down(self) -> None:
        """Ends what runs."""
        self._lost.cancel()
        await self._app.drain()
        await self._app.stop(REFUSAL_S)
        logging.close()

    async def __call__(self, _: object) -> str:
        """To HTTP, which Ray's proxies speak as well."""
        return "farpoint answers gRPC here; see docs/ray.md"

    async def _fail(self, context: ReplicaContext, error: Exception) -> None:
        log.error("call through Ray", exc_info=error)
        await context.fail(error)


def _make_unary(method: Method) -> Callable[..., Any]:
    async def call(self: Replica, request: Any, grpc_context: RayContext) -> Serialized:
        messages = request if method.reads_many else _only(request)
        return await self.answer(method, messages, grpc_context)

    return call


def _make_stream(method: Method) -> Callable[..., Any]:
    async def call(
        self: Replica, request: Any, grpc_context: RayContext
    ) -> AsyncIterator[Serialized]:
        messages = request if method.reads_many else _only(request)
        async for answer in self.answers(method, messages, grpc_context):
            yield answer

    return call


async def _only(message: bytes) -> AsyncIterator[bytes]:
    yield message


# Ray calls what has the RPC's name, and gives it the context by the name of the argument.
for _method in METHODS:
    _call = (_make_stream if _method.writes_many else _make_unary)(_method)
    _call.__name__ = _method.name
    setattr(Replica, _method.name, _call)
