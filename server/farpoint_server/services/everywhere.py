"""Methods that one process answers for all processes of a server: what it tells, what it adds up.

State across calls is listed in docs/decisions/0070; what is added there needs a line here.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import grpc
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from farpoint.inference import open_inference_pb2 as pb
from farpoint.v1 import admin_pb2
from farpoint_server.transport.handlers import Context, Handler
from farpoint_server.transport.http.calls import HandlerRegistry
from farpoint_server.transport.peers import Peers

M = TypeVar("M", bound=Message)
Merge = Callable[[Any, Mapping[int, bytes]], Message]


def _own(own: M, _: Mapping[int, bytes]) -> M:
    """Where all have the same to say."""
    return own


def _memory(
    own: admin_pb2.GetMemoryResponse, others: Mapping[int, bytes]
) -> admin_pb2.GetMemoryResponse:
    """Each device of each process."""
    for index, data in others.items():
        other = admin_pb2.GetMemoryResponse.FromString(data)
        for device in other.devices:
            device.process = index
        own.devices.extend(other.devices)
        own.resident_bytes += other.resident_bytes
    own.devices.sort(key=lambda device: device.process)
    return own


def _trims(
    own: admin_pb2.TrimMemoryResponse, others: Mapping[int, bytes]
) -> admin_pb2.TrimMemoryResponse:
    for index, data in others.items():
        other = admin_pb2.TrimMemoryResponse.FromString(data)
        for trim in other.trims:
            trim.process = index
        own.trims.extend(other.trims)
    own.trims.sort(key=lambda trim: trim.process)
    return own


def _statistics(
    own: pb.ModelStatisticsResponse, others: Mapping[int, bytes]
) -> pb.ModelStatisticsResponse:
    models = {model.name: model for model in own.model_stats}
    for data in others.values():
        for model in pb.ModelStatisticsResponse.FromString(data).model_stats:
            if model.name in models:
                add_up(models[model.name], model)
    return own


def add_up(to: Message, other: Message) -> None:
    """Adds the numbers of a message; of the batch sizes of each that it knows, others are added.

    A time of an event (`last_...`) is that of the later one, and the size of a batch is what tells
    one from another.
    """
    for field, value in other.ListFields():
        mine = getattr(to, field.name)
        if field.name == "batch_stats":
            sizes = {batch.batch_size: batch for batch in mine}
            for batch in value:
                if batch.batch_size in sizes:
                    add_up(sizes[batch.batch_size], batch)
                else:
                    mine.add().CopyFrom(batch)
        elif field.type == FieldDescriptor.TYPE_MESSAGE and isinstance(value, Message):
            add_up(mine, value)
        elif field.name.startswith("last_"):
            setattr(to, field.name, max(mine, value))
        elif isinstance(value, int) and field.name != "batch_size":
            setattr(to, field.name, mine + value)


# Whether a method changes something, and what is made of the answers.
METHODS: Mapping[str, tuple[bool, Merge]] = {
    "/farpoint.v1.AdminService/GetMemory": (False, _memory),
    "/farpoint.v1.AdminService/TrimMemory": (True, _trims),
    "/farpoint.v1.AdminService/LoadModel": (True, _own),
    "/farpoint.v1.AdminService/UnloadModel": (True, _own),
    "/inference.GRPCInferenceService/ModelStatistics": (False, _statistics),
    "/inference.GRPCInferenceService/RepositoryModelLoad": (True, _own),
    "/inference.GRPCInferenceService/RepositoryModelUnload": (True, _own),
}
CHANGING = frozenset(method for method, (changes, _) in METHODS.items() if changes)


class Everywhere:
    """Registers methods at a server so that those of METHODS are answered for all processes.

    This process answers first, so what it refuses reaches no other one.

    Args:
        registry: Of a server that callers reach.
        peers: The other processes.
        index: Of this process.
    """

    def __init__(self, registry: HandlerRegistry, peers: Peers, index: int) -> None:
        self._registry, self._peers, self._index = registry, peers, index

    def add_generic_rpc_handlers(
        self, generic_rpc_handlers: "Sequence[grpc.GenericRpcHandler]"
    ) -> None:
        """As grpc.aio.Server."""
        wrapped = [_Generic(handler, self._wrap) for handler in generic_rpc_handlers]
        self._registry.add_generic_rpc_handlers(wrapped)

    def add_registered_method_handlers(
        self, service_name: str, method_handlers: "Mapping[str, grpc.RpcMethodHandler[Any, Any]]"
    ) -> None:
        """As grpc.aio.Server; the generic handlers have those of METHODS."""
        kept = {
            name: handler
            for name, handler in method_handlers.items()
            if f"/{service_name}/{name}" not in METHODS
        }
        self._registry.add_registered_method_handlers(service_name, kept)

    def _wrap(self, method: str, handler: "grpc.RpcMethodHandler[Any, Any]") -> Handler:
        if method not in METHODS or handler.unary_unary is None:
            return handler
        changes, merge = METHODS[method]
        answer: Any = handler.unary_unary

        async def everywhere(request: Message, context: Context) -> Message:
            own = await answer(request, context)
            if self._index and merge in (_memory, _trims):
                for part in own.devices if merge is _memory else own.trims:
                    part.process = self._index
            data = request.SerializeToString()
            if changes:
                others = await self._peers.tell(method, data, context.time_remaining())
            else:
                others = await self._peers.ask(method, data)
            return merge(own, others)

        return grpc.unary_unary_rpc_method_handler(
            everywhere, handler.request_deserializer, handler.response_serializer
        )


class _Generic(grpc.GenericRpcHandler):
    def __init__(self, inner: grpc.GenericRpcHandler, wrap: Callable[[str, Any], Handler]) -> None:
        self._inner, self._wrap = inner, wrap
        self._known: dict[str, Handler] = {}

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Handler:
        """As grpc.GenericRpcHandler; the same handler each time."""
        method = str(handler_call_details.method)
        if method not in self._known:
            found = self._inner.service(handler_call_details)
            if found is None:
                return None
            self._known[method] = self._wrap(method, found)
        return self._known[method]
