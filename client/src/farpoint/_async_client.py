"""Asynchronous client: the methods of `Client` as coroutines on one grpc.aio channel."""

import asyncio
import os
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, overload

import grpc

from farpoint._base_client import BaseClient
from farpoint._connection.call import CallContext
from farpoint._connection.channel import open_aio_channel
from farpoint._connection.shared_memory import Lease
from farpoint._rpcs import calls
from farpoint._rpcs.calls import UnaryRpc
from farpoint._rpcs.encode import EncodeRpc
from farpoint._rpcs.infer import CONCURRENCY, InferRpc
from farpoint._rpcs.methods import (
    EncodeOptions,
    InferOptions,
    Method,
    Nonfinite,
    Progress,
    SampleOptions,
)
from farpoint._rpcs.sample import SampleRpc
from farpoint._rpcs.stream import SampleStreamRpc, in_pieces
from farpoint._types import Attributes, BatchArray, CloudArray, CloudLike, Counts
from farpoint.errors import FailedPreconditionError
from farpoint.memory import Memory, Trim
from farpoint.models import Encoding, Inference, Model
from farpoint.results import Sample, ServerInfo, StreamedSample

if TYPE_CHECKING:
    from typing_extensions import Unpack

Result = TypeVar("Result")


class AsyncClient(BaseClient[grpc.aio.Channel]):
    """A connection to a Farpoint server for one event loop.

    It has the arguments of `Client` and its methods as coroutines. Cancelling a task cancels its
    call. The first call binds it to its event loop; in another one, calls raise
    FailedPreconditionError.
    """

    _open = staticmethod(open_aio_channel)

    def _begin(self) -> None:
        super()._begin()
        self._loop: asyncio.AbstractEventLoop | None = None

    def _start(self, timeout: float | None) -> CallContext:
        self._check_loop()
        return super()._start(timeout)

    def _check_loop(self) -> None:
        """Binds the client to the running event loop, or raises if it belongs to another."""
        try:
            running = asyncio.get_running_loop()
        except RuntimeError as error:
            raise FailedPreconditionError(
                "AsyncClient needs an event loop of asyncio: use Client, in a thread if necessary"
            ) from error
        with self._lock:
            self._loop = own = self._loop or running
        if own is not running:
            raise FailedPreconditionError(
                "this AsyncClient belongs to the event loop of its first call"
                f"{', which is closed' if own.is_closed() else ''}: make one in each loop "
                "(asyncio.run starts a new loop each time)"
            )

    @overload
    async def sample(
        self, points: CloudArray, m: Counts = None, **options: "Unpack[SampleOptions]"
    ) -> Sample: ...

    @overload
    async def sample(  # type: ignore[overload-overlap]
        self,
        points: BatchArray | Sequence[CloudLike],
        m: Counts = None,
        **options: "Unpack[SampleOptions]",
    ) -> list[Sample]: ...

    @overload
    async def sample(
        self, points: CloudLike, m: Counts = None, **options: "Unpack[SampleOptions]"
    ) -> Sample: ...

    async def sample(
        self,
        points: Any,
        m: Counts = None,
        *,
        attributes: Attributes | None = None,
        start: int | Sequence[int] = 0,
        nonfinite: Nonfinite = "reject",
        radius: float | None = None,
        method: Method | None = None,
        timeout: float | None = None,
        progress: Progress | None = None,
    ) -> Any:
        """Samples points of each cloud; see `Client.sample`."""
        context = self._start(timeout)
        with nullcontext() if self._memory is None else Lease(self._memory, context) as lease:
            make = partial(
                SampleRpc,
                points=points,
                m=m,
                attributes=attributes,
                start=start,
                nonfinite=nonfinite,
                lease=lease,
                checksums=self._checksums,
                radius=radius,
                method=method,
            )
            # The server is waited for where memory is shared with it.
            rpc = make() if lease is None else await asyncio.to_thread(make)
            if not rpc.batch.clouds:
                return []
            if self._message_limit is None and not rpc.is_certainly_accepted:
                info = await self._invoke(calls.server_info(), context)
                self._message_limit = info.limits.message_bytes
            return await self._invoke(in_pieces(rpc, self._message_limit, progress), context)

    async def sample_stream(
        self,
        clouds: Iterable[CloudLike] | AsyncIterable[CloudLike],
        m: int | None = None,
        *,
        start: int = 0,
        nonfinite: Nonfinite = "reject",
        radius: float | None = None,
        method: Method | None = None,
        latest_only: bool = False,
        timeout: float | None = None,
    ) -> AsyncIterator[StreamedSample]:
        """Samples a stream of clouds; see `Client.sample_stream`."""
        self._check_loop()
        rpc = SampleStreamRpc(
            m=m,
            start=start,
            nonfinite=nonfinite,
            latest_only=latest_only,
            context=self._start_stream(timeout),
            checksums=self._checksums,
            radius=radius,
            method=method,
        )
        stubs = self._stubs or self._open_stubs()
        with self._calling(rpc.context):
            answers = stubs.sampling.SampleStream(rpc.requests_async(clouds), **rpc.options)
            try:
                async for answer in answers:
                    for item in rpc.read(answer):
                        yield item
                        self._check_loop()
            finally:
                self._cancel(answers)
        for item in rpc.finish():
            yield item

    @overload
    async def encode(self, points: CloudArray, **options: "Unpack[EncodeOptions]") -> Encoding: ...

    @overload
    async def encode(  # type: ignore[overload-overlap]
        self, points: BatchArray | Sequence[CloudLike], **options: "Unpack[EncodeOptions]"
    ) -> list[Encoding]: ...

    @overload
    async def encode(self, points: CloudLike, **options: "Unpack[EncodeOptions]") -> Encoding: ...

    async def encode(
        self,
        points: Any,
        *,
        model: str | None = None,
        attributes: Attributes | None = None,
        timeout: float | None = None,
    ) -> Any:
        """Runs an encoder on each cloud; see `Client.encode`."""
        context = self._start(timeout)
        rpc = EncodeRpc(points, model, attributes, self._checksums)
        return await self._invoke(rpc, context) if rpc.batch.clouds else []

    @overload
    async def infer(
        self, model: str, inputs: Mapping[str, Any], **options: "Unpack[InferOptions]"
    ) -> Inference: ...

    @overload
    async def infer(
        self, model: str, inputs: Sequence[Mapping[str, Any]], **options: "Unpack[InferOptions]"
    ) -> list[Inference]: ...

    async def infer(
        self,
        model: str,
        inputs: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        outputs: Sequence[str] | None = None,
        timeout: float | None = None,
    ) -> Any:
        """Runs a loaded model; see `Client.infer`."""
        context = self._start(timeout)
        batch = [inputs] if isinstance(inputs, Mapping) else inputs
        rpcs = [InferRpc(model, each, outputs, self._checksums) for each in batch]
        if isinstance(inputs, Mapping):
            return await self._invoke(rpcs[0], context)
        slots = asyncio.Semaphore(CONCURRENCY)

        async def call(rpc: InferRpc) -> Inference:
            async with slots:
                return await self._invoke(rpc, context)

        calls = [asyncio.ensure_future(call(rpc)) for rpc in rpcs]
        try:
            return await asyncio.gather(*calls)
        finally:
            for each in calls:
                each.cancel()

    async def list_models(self, *, timeout: float | None = None) -> list[Model]:
        """The loaded models; `encode` uses the first one by default."""
        return await self._invoke(calls.list_models(), self._start(timeout))

    async def load_model(
        self,
        name: str,
        path: "str | os.PathLike[str] | None" = None,
        *,
        timeout: float | None = None,
    ) -> Model:
        """Loads a model into the server; see `Client.load_model`."""
        return await self._invoke(calls.load_model(name, path), self._start(timeout))

    async def unload_model(self, name: str, *, timeout: float | None = None) -> None:
        """Unloads a model; calls that use it finish."""
        await self._invoke(calls.unload_model(name), self._start(timeout))

    async def server_info(self, *, timeout: float | None = None) -> ServerInfo:
        """The server's version, devices, methods and limits."""
        return await self._invoke(calls.server_info(), self._start(timeout))

    async def memory(self, *, timeout: float | None = None) -> Memory:
        """The memory use of each device; see `Client.memory`."""
        return await self._invoke(calls.get_memory(), self._start(timeout))

    async def trim_memory(self, *, force: bool = False, timeout: float | None = None) -> list[Trim]:
        """Makes the server return cached memory; see `Client.trim_memory`."""
        return await self._invoke(calls.trim_memory(force), self._start(timeout))

    async def close(self) -> None:
        """Closes the connection; calls in flight are cancelled."""
        has_loop = self._loop is None or not self._loop.is_closed()
        if has_loop:
            self._check_loop()
        channel = self._end()
        if channel is not None and has_loop:  # without, it closes as garbage
            await channel.close()

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _cancel(self, call: Any) -> None:
        """Cancels a call in its own loop, whichever loop its caller was taken to."""
        own = self._loop
        if own is None or own is asyncio.get_running_loop():
            call.cancel()
        elif not own.is_closed():
            own.call_soon_threadsafe(call.cancel)

    async def _invoke(self, rpc: UnaryRpc[Any, Result], context: CallContext) -> Result:
        method = rpc.method(self._stubs or self._open_stubs())
        with self._calling(context):
            response = await method(rpc.request, **context.rpc_options())
        return rpc.read(response, context)
