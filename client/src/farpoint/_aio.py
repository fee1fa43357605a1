"""The asyncio client, method for method the twin of `Client`."""

import asyncio
from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Sequence,
)
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

import grpc

from farpoint import _large, _plan
from farpoint._arrays import ArrayLike
from farpoint._batch import Attributes
from farpoint._channel import DEFAULT_TARGET, DEFAULT_TIMEOUT_S, checked_target, open_aio_channel
from farpoint._encode import plan_encode
from farpoint._security import PathLike, Tls, read_security
from farpoint._shared_memory import Lease, open_shared_memory
from farpoint._stream import Stream
from farpoint.errors import from_rpc_error
from farpoint.memory import Memory, Trim, read_memory, read_trims
from farpoint.models import Encoding, Model, read_model
from farpoint.results import Sample, ServerInfo, StreamedSample
from farpoint.v1 import admin_pb2, admin_pb2_grpc, sampling_pb2_grpc
from farpoint.v1 import sampling_pb2 as pb

if TYPE_CHECKING:
    from farpoint.v1.admin_pb2_grpc import AdminServiceAsyncStub
    from farpoint.v1.sampling_pb2_grpc import SamplingServiceAsyncStub

Response = TypeVar("Response")


class AsyncClient:
    """A connection to a Farpoint server for one event loop.

    Takes the arguments of `Client` and has its methods, to be awaited. A task that is cancelled
    cancels its call.
    """

    def __init__(
        self,
        target: str = DEFAULT_TARGET,
        *,
        timeout: float | None = DEFAULT_TIMEOUT_S,
        tls: bool | PathLike | Tls = False,
        token: str | None = None,
        credentials: grpc.ChannelCredentials | None = None,
        shared_memory: str | None = None,
    ) -> None:
        self._target = checked_target(target)
        self._timeout = timeout
        self._limit: int | None = None
        self._memory = open_shared_memory(shared_memory)
        self._security = read_security(target, tls, token, credentials)

    # Opened at the first call: a channel belongs to the loop that is running then.
    @cached_property
    def _channel(self) -> grpc.aio.Channel:
        return open_aio_channel(self._target, self._security)

    @cached_property
    def _stub(self) -> "SamplingServiceAsyncStub":
        return sampling_pb2_grpc.SamplingServiceStub(self._channel)

    @cached_property
    def _admin(self) -> "AdminServiceAsyncStub":
        return admin_pb2_grpc.AdminServiceStub(self._channel)

    @overload
    async def sample(
        self,
        points: Sequence[ArrayLike],
        m: int | Sequence[int],
        *,
        attributes: Attributes | None = None,
        start: int | Sequence[int] = 0,
        nonfinite: Literal["reject", "ignore"] = "reject",
        timeout: float | None = None,
    ) -> list[Sample]: ...

    @overload
    async def sample(
        self,
        points: ArrayLike | Sequence[Sequence[float]],
        m: int | Sequence[int],
        *,
        attributes: Attributes | None = None,
        start: int | Sequence[int] = 0,
        nonfinite: Literal["reject", "ignore"] = "reject",
        timeout: float | None = None,
    ) -> Any: ...

    async def sample(
        self,
        points: Any,
        m: int | Sequence[int],
        *,
        attributes: Attributes | None = None,
        start: int | Sequence[int] = 0,
        nonfinite: Literal["reject", "ignore"] = "reject",
        timeout: float | None = None,
    ) -> Any:
        """Chooses m points of each cloud by farthest point sampling; see `Client.sample`."""
        with Lease(self._memory) as lease:
            arguments = points, m, attributes, start, nonfinite, lease.encode
            if self._memory is None:
                plan = _plan.plan_sample(*arguments)
            else:  # the first time, the server is waited for
                plan = await asyncio.to_thread(_plan.plan_sample, *arguments)
            if plan.is_empty:
                return []
            call = _plan.start_call(timeout, self._timeout)
            return plan.read(await self._sample(plan.request, call), call)

    async def sample_stream(
        self,
        clouds: Iterable[ArrayLike] | AsyncIterable[ArrayLike],
        m: int,
        *,
        start: int = 0,
        nonfinite: Literal["reject", "ignore"] = "reject",
        latest_only: bool = False,
        timeout: float | None = None,
    ) -> AsyncIterator[StreamedSample]:
        """Samples clouds as they come, and answers in their order; see `Client.sample_stream`."""
        stream = Stream(m, start, nonfinite, latest_only, _plan.start_call(timeout, None))
        answers = self._stub.SampleStream(stream.requests_async(clouds), **stream.call.options)
        try:
            async for answer in answers:
                for item in stream.read(answer):
                    yield item
        except grpc.RpcError as error:
            raise from_rpc_error(error, stream.call.request_id) from error
        finally:
            answers.cancel()
        for item in stream.finish():
            yield item

    @overload
    async def encode(
        self,
        points: Sequence[ArrayLike],
        model: str | None = None,
        attributes: Attributes | None = None,
        timeout: float | None = None,
    ) -> list[Encoding]: ...

    @overload
    async def encode(
        self,
        points: ArrayLike | Sequence[Sequence[float]],
        model: str | None = None,
        attributes: Attributes | None = None,
        timeout: float | None = None,
    ) -> Any: ...

    async def encode(
        self,
        points: Any,
        model: str | None = None,
        attributes: Attributes | None = None,
        timeout: float | None = None,
    ) -> Any:
        """Runs a model over each cloud; see `Client.encode`."""
        plan = plan_encode(points, model, attributes)
        if plan.is_empty:
            return []
        call = _plan.start_call(timeout, self._timeout)
        return plan.read(await self._invoke(self._stub.Encode, plan.request, call), call)

    async def list_models(self, *, timeout: float | None = None) -> list[Model]:
        """The models that are ready; `encode` takes the first if it is given none."""
        call = _plan.start_call(timeout, self._timeout)
        response = await self._invoke(self._stub.ListModels, pb.ListModelsRequest(), call)
        return [read_model(model) for model in response.models]

    async def load_model(
        self, name: str, path: str | None = None, *, timeout: float | None = None
    ) -> Model:
        """Has the server load a model; see `Client.load_model`."""
        call = _plan.start_call(timeout, self._timeout)
        request = admin_pb2.LoadModelRequest(name=name, path=path or "")
        return read_model((await self._invoke(self._admin.LoadModel, request, call)).model)

    async def unload_model(self, name: str, *, timeout: float | None = None) -> None:
        """Has the server let go of a model; calls that use it finish."""
        call = _plan.start_call(timeout, self._timeout)
        request = admin_pb2.UnloadModelRequest(name=name)
        await self._invoke(self._admin.UnloadModel, request, call)

    async def server_info(self, *, timeout: float | None = None) -> ServerInfo:
        """What the server is and what it accepts."""
        call = _plan.start_call(timeout, self._timeout)
        request = pb.GetServerInfoRequest()
        return _plan.read_server_info(await self._invoke(self._stub.GetServerInfo, request, call))

    async def memory(self, *, snapshots: bool = False, timeout: float | None = None) -> Memory:
        """What the memory of each device is used for; see `Client.memory`."""
        call = _plan.start_call(timeout, self._timeout)
        request = admin_pb2.GetMemoryRequest(include_snapshots=snapshots)
        return read_memory(await self._invoke(self._admin.GetMemory, request, call))

    async def trim_memory(self, *, force: bool = False, timeout: float | None = None) -> list[Trim]:
        """Has the server give cached memory back; see `Client.trim_memory`."""
        call = _plan.start_call(timeout, self._timeout)
        request = admin_pb2.TrimMemoryRequest(force=force)
        return read_trims(await self._invoke(self._admin.TrimMemory, request, call))

    async def close(self) -> None:
        """Ends the connection; calls under way are cancelled."""
        await self._channel.close()
        if self._memory is not None:
            self._memory.close()

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def _sample(self, request: pb.SampleRequest, call: _plan.Call) -> pb.SampleResponse:
        if not _large.needs_limit(request) or request.ByteSize() <= await self._message_limit(call):
            return await self._invoke(self._stub.Sample, request, call)
        pieces = _large.pieces(request, await self._message_limit(call))
        return (await self._invoke(self._stub.SampleLarge, pieces, call)).response

    async def _message_limit(self, call: _plan.Call) -> int:
        if self._limit is None:
            info = await self._invoke(self._stub.GetServerInfo, pb.GetServerInfoRequest(), call)
            self._limit = info.limits.message_bytes
        return self._limit

    @staticmethod
    async def _invoke(
        method: Callable[..., Awaitable[Response]], request: object, call: _plan.Call
    ) -> Response:
        try:
            return await method(request, **call.options)
        except grpc.RpcError as error:
            raise from_rpc_error(error, call.request_id) from error
