"""What the engine's process owns: administration, which front ends forward to it."""

from collections.abc import Mapping
from functools import partial

from google.protobuf import message_factory
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message

from farpoint_server.compute.remote.client import RemoteCompute
from farpoint_server.services import admin
from farpoint_server.transport.grpc.handlers import Methods, UnaryFunction, unary_methods

CHANGES_MODELS = ("LoadModel", "UnloadModel")
METHODS: Mapping[str, MethodDescriptor] = {
    f"/{admin.DESCRIPTOR.full_name}/{method.name}": method for method in admin.DESCRIPTOR.methods
}


def forwarding(engine: RemoteCompute) -> Methods:
    """Handlers of METHODS that ask the engine's process."""
    kind = message_factory.GetMessageClass
    answers: dict[str, UnaryFunction] = {
        method.name: partial(_forward, engine, path, kind(method.output_type))
        for path, method in METHODS.items()
    }
    return unary_methods(admin.DESCRIPTOR, answers)


async def _forward(
    engine: RemoteCompute, path: str, kind: type[Message], request: Message
) -> Message:
    return kind.FromString(await engine.ask(path, request.SerializeToString()))
