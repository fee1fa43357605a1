"""RPCs with one response: the stub's method, the request, and how the response is read.

`Client` and `AsyncClient` make calls from the same objects: `SampleRpc`, `EncodeRpc` and
`UploadRpc`, which have modules of their own, and the small ones here.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Any, Generic, TypeVar

import grpc
from google.protobuf.message import Message

from farpoint._connection.call import CallContext
from farpoint._rpcs.serialized import SerializedRequest, take_serialized
from farpoint.inference import open_inference_pb2_grpc
from farpoint.memory import Memory, Trim, read_memory, read_trims
from farpoint.models import Model, read_model
from farpoint.results import ServerInfo, read_server_info
from farpoint.v1 import admin_pb2, admin_pb2_grpc, sampling_pb2_grpc
from farpoint.v1 import sampling_pb2 as pb

Response = TypeVar("Response")
Result = TypeVar("Result")


class Stubs:
    """The generated stubs of one channel, synchronous or asynchronous."""

    def __init__(self, channel: grpc.Channel | grpc.aio.Channel) -> None:
        self.sampling: Any = sampling_pb2_grpc.SamplingServiceStub(channel)
        take_serialized(self.sampling, channel)
        self.admin: Any = admin_pb2_grpc.AdminServiceStub(channel)
        self.inference: Any = open_inference_pb2_grpc.GRPCInferenceServiceStub(channel)


class UnaryRpc(ABC, Generic[Response, Result]):
    """One RPC with one response."""

    method: "attrgetter[Any]"
    """Finds the stub's method in `Stubs`."""
    request: Message | SerializedRequest | Iterator[Message]

    @abstractmethod
    def read(self, response: Response, context: CallContext, /) -> Result:
        """The response in plain Python values."""


class PlainRpc(UnaryRpc[Response, Result]):
    """An RPC whose response is read by a function."""

    def __init__(self, method: str, request: Message, read: Callable[[Response], Result]) -> None:
        self.method = attrgetter(method)
        self.request = request
        self._read = read

    def read(self, response: Response, _: CallContext) -> Result:
        return self._read(response)


def server_info() -> PlainRpc[pb.GetServerInfoResponse, ServerInfo]:
    return PlainRpc("sampling.GetServerInfo", pb.GetServerInfoRequest(), read_server_info)


def list_models() -> PlainRpc[pb.ListModelsResponse, list[Model]]:
    return PlainRpc(
        "sampling.ListModels",
        pb.ListModelsRequest(),
        lambda response: [read_model(model) for model in response.models],
    )


def load_model(
    name: str, path: "str | os.PathLike[str] | None"
) -> PlainRpc[admin_pb2.LoadModelResponse, Model]:
    request = admin_pb2.LoadModelRequest(name=name, path=os.fspath(path or ""))
    return PlainRpc("admin.LoadModel", request, lambda response: read_model(response.model))


def unload_model(name: str) -> PlainRpc[admin_pb2.UnloadModelResponse, None]:
    request = admin_pb2.UnloadModelRequest(name=name)
    return PlainRpc("admin.UnloadModel", request, lambda _: None)


def get_memory() -> PlainRpc[admin_pb2.GetMemoryResponse, Memory]:
    return PlainRpc("admin.GetMemory", admin_pb2.GetMemoryRequest(), read_memory)


def trim_memory(force: bool) -> PlainRpc[admin_pb2.TrimMemoryResponse, list[Trim]]:
    request = admin_pb2.TrimMemoryRequest(force=force)
    return PlainRpc("admin.TrimMemory", request, read_trims)
