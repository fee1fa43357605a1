"""What the engine's process owns: administration, which front ends forward to it."""

from collections.abc import Mapping
from functools import partial

from google.protobuf import message_factory
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message

from farpoint_server.compute.remote.client import RemoteCompute
from farpoint_server.services import admin
from farpoint_server.services.open_inference import repository
from farpoint_server.transport.grpc.handlers import Method, unary_methods

CHANGES_MODELS = ("LoadModel", "UnloadModel", "RepositoryModelLoad", "RepositoryModelUnload")
METHODS: Mapping[str, MethodDescriptor] = {
    f"/{service.full_name}/{name}": service.methods_by_name[name]
    for service, names in (
        (admin.DESCRIPTOR, ("GetMemory", "TrimMemory", *CHANGES_MODELS[:2])),
        (repository.DESCRIPTOR, ("RepositoryIndex", *CHANGES_MODELS[2:])),
    )
    for name in names
}


def owned_by(engine: RemoteCompute | None, path: str, handler: Method) -> Method:
    """A handler that asks the engine's process for a method of METHODS; another as it is."""
    method = METHODS.get(path)
    if engine is None or method is None:
        return handler
    answer = partial(_forward, engine, path, message_factory.GetMessageClass(method.output_type))
    return unary_methods(method.containing_service, {method.name: answer})[method.name]


async def _forward(
    engine: RemoteCompute, path: str, kind: type[Message], request: Message
) -> Message:
    return kind.FromString(await engine.ask(path, request.SerializeToString()))
