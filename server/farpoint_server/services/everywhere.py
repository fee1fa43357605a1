"""Methods that one process answers for all processes of a server: what it tells, what it adds up.

State across calls is listed in docs/decisions/0070; what is added there needs a line here.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import grpc
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from farpoint.inference import open_inference_pb2 as pb
from farpoint.v1 import admin_pb2
from farpoint_server.services.methods import Handler
from farpoint_server.transport.handlers import Context
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


def answer_for_all(peers: Peers, index: int, path: str, handler: Handler) -> Handler:
    """A handler that answers a method of METHODS for all processes; another as it is.

    This process answers first, so what it refuses reaches no other one.

    Args:
        peers: The other processes.
        index: Of this process.
        path: Of the method.
        handler: Answers for this process.
    """
    if path not in METHODS:
        return handler
    changes, merge = METHODS[path]
    answer: Any = handler.unary_unary

    async def everywhere(request: Message, context: Context) -> Message:
        own = await answer(request, context)
        if index and merge in (_memory, _trims):
            for part in own.devices if merge is _memory else own.trims:
                part.process = index
        data = request.SerializeToString()
        if changes:
            others = await peers.tell(path, data, context.time_remaining())
        else:
            others = await peers.ask(path, data)
        return merge(own, others)

    return grpc.unary_unary_rpc_method_handler(
        everywhere, handler.request_deserializer, handler.response_serializer
    )
