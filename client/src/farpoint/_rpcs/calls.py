"""Unary RPCs, one class each: stub method, how its request is made, how its response is read.

`Client` and `AsyncClient` make calls from the same objects: `SampleRpc`, `EncodeRpc` and
`UploadRpc`, which have modules of their own, and the small ones here.
"""

import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, ClassVar, Generic, TypeVar

import grpc
from google.protobuf.message import Message

from farpoint._rpcs.serialized import SerializedRequest, take_serialized
from farpoint.errors import InvalidArgumentError
from farpoint.inference import open_inference_pb2_grpc
from farpoint.memory import Memory, Trim, read_memory, read_trims
from farpoint.models import Model, read_model
from farpoint.results import ServerInfo, Timings, read_server_info
from farpoint.v1 import admin_pb2, admin_pb2_grpc, sampling_pb2_grpc
from farpoint.v1 import sampling_pb2 as pb

REQUEST_ID_KEY = "x-request-id"

Response = TypeVar("Response")
Result = TypeVar("Result")


@dataclass(frozen=True)
class CallContext:
    """Request id, deadline and start of one call of a client, however many RPCs it makes."""

    timeout: float | None
    """Seconds from the start; None is without limit."""
    request_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    started: float = field(default_factory=time.perf_counter)

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        """What is sent with each RPC of the call."""
        return ((REQUEST_ID_KEY, self.request_id),)

    def remaining_s(self) -> float | None:
        """Seconds until the deadline, 0 once it has passed; None without one."""
        if self.timeout is None:
            return None
        return max(0.0, self.started + self.timeout - time.perf_counter())

    def rpc_options(self) -> dict[str, Any]:
        """Keyword arguments of a stub's method: an RPC may take what is left of the call's time."""
        return {"timeout": self.remaining_s(), "metadata": self.metadata}

    def read_timings(self, timings: pb.Timings) -> Timings:
        """The server's measurements, and what is left of the time since the call began."""
        total_ms = (time.perf_counter() - self.started) * 1e3
        return Timings(
            queue_ms=timings.queue_ms,
            compute_ms=timings.compute_ms,
            server_ms=timings.server_ms,
            wire_ms=max(0.0, total_ms - timings.server_ms),
            total_ms=total_ms,
        )


def start_call(timeout: float | None, default: float | None = None) -> CallContext:
    """A call that begins now, with its own timeout in seconds, or else the client's.

    Raises:
        InvalidArgumentError: the timeout is not above 0.
    """
    timeout = default if timeout is None else timeout
    if timeout is not None and not timeout > 0:
        raise InvalidArgumentError(
            f"timeout must be seconds above 0, or None, got {timeout}", field="timeout"
        )
    return CallContext(timeout)


class Stubs:
    """The generated stubs of one channel, sync or asyncio as the channel is."""

    def __init__(self, channel: grpc.Channel | grpc.aio.Channel) -> None:
        self.sampling: Any = sampling_pb2_grpc.SamplingServiceStub(channel)
        take_serialized(self.sampling, channel)
        self.admin: Any = admin_pb2_grpc.AdminServiceStub(channel)
        self.inference: Any = open_inference_pb2_grpc.GRPCInferenceServiceStub(channel)


class UnaryRpc(ABC, Generic[Response, Result]):
    """One RPC with one response; its class says which, the object what is asked."""

    method: ClassVar["attrgetter[Any]"]
    """Finds the stub's method in `Stubs`."""
    may_be_hedged: ClassVar[bool] = False
    """Whether several servers may be asked at once: it changes nothing, and any answer will do."""
    request: Message | SerializedRequest | Iterator[Message]

    @abstractmethod
    def read(self, response: Response, context: CallContext, /) -> Result:
        """The response in plain Python values."""


class GetServerInfoRpc(UnaryRpc[pb.GetServerInfoResponse, ServerInfo]):
    """What the server is and what it accepts."""

    method = attrgetter("sampling.GetServerInfo")

    def __init__(self) -> None:
        self.request = pb.GetServerInfoRequest()

    def read(self, response: pb.GetServerInfoResponse, _: CallContext) -> ServerInfo:
        return read_server_info(response)


class ListModelsRpc(UnaryRpc[pb.ListModelsResponse, list[Model]]):
    """The models that are ready."""

    method = attrgetter("sampling.ListModels")

    def __init__(self) -> None:
        self.request = pb.ListModelsRequest()

    def read(self, response: pb.ListModelsResponse, _: CallContext) -> list[Model]:
        return [read_model(model) for model in response.models]


class LoadModelRpc(UnaryRpc[admin_pb2.LoadModelResponse, Model]):
    """Loads a model from a file of the server's machine."""

    method = attrgetter("admin.LoadModel")

    def __init__(self, name: str, path: str | None) -> None:
        self.request = admin_pb2.LoadModelRequest(name=name, path=path or "")

    def read(self, response: admin_pb2.LoadModelResponse, _: CallContext) -> Model:
        return read_model(response.model)


class UnloadModelRpc(UnaryRpc[admin_pb2.UnloadModelResponse, None]):
    """Unloads a model."""

    method = attrgetter("admin.UnloadModel")

    def __init__(self, name: str) -> None:
        self.request = admin_pb2.UnloadModelRequest(name=name)

    def read(self, _response: admin_pb2.UnloadModelResponse, _: CallContext) -> None:
        """Nothing."""


class GetMemoryRpc(UnaryRpc[admin_pb2.GetMemoryResponse, Memory]):
    """What the memory of each device is used for."""

    method = attrgetter("admin.GetMemory")

    def __init__(self, snapshots: bool) -> None:
        self.request = admin_pb2.GetMemoryRequest(include_snapshots=snapshots)

    def read(self, response: admin_pb2.GetMemoryResponse, _: CallContext) -> Memory:
        return read_memory(response)


class TrimMemoryRpc(UnaryRpc[admin_pb2.TrimMemoryResponse, list[Trim]]):
    """Gives cached memory back."""

    method = attrgetter("admin.TrimMemory")

    def __init__(self, force: bool) -> None:
        self.request = admin_pb2.TrimMemoryRequest(force=force)

    def read(self, response: admin_pb2.TrimMemoryResponse, _: CallContext) -> list[Trim]:
        return read_trims(response)
