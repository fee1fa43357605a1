"""gRPC server reflection, v1alpha (part of grpcio) and v1 (which tools try first)."""

from collections.abc import AsyncIterator, Iterable
from typing import Any

import grpc
from google.protobuf import descriptor_pb2
from google.protobuf.descriptor import FileDescriptor, ServiceDescriptor
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_reflection.v1alpha import reflection, reflection_pb2  # type: ignore[import-untyped]

from farpoint_server.errors import ServiceError

V1ALPHA = "grpc.reflection.v1alpha"
V1 = "grpc.reflection.v1"
SERVICES = (f"{V1ALPHA}.ServerReflection", f"{V1}.ServerReflection")


def add_to(server: grpc.aio.Server, services: Iterable[ServiceDescriptor]) -> None:
    """Serves the descriptors of the services of `server` and of reflection."""
    described = tuple(services)
    names = (*(service.full_name for service in described), *SERVICES)
    servicer = reflection.aio.ReflectionServicer(names, pool=_pool(described))

    async def answer_all(requests: AsyncIterator[Any], context: Any) -> AsyncIterator[Any]:
        async for response in servicer.ServerReflectionInfo(_parsed(requests), context):
            yield response

    # The messages of both versions are the same on the wire; only the package's name differs.
    answer = grpc.stream_stream_rpc_method_handler(
        answer_all,
        request_deserializer=reflection_pb2.ServerReflectionRequest.FromString,
        response_serializer=reflection_pb2.ServerReflectionResponse.SerializeToString,
    )
    for name in SERVICES:
        generic = grpc.method_handlers_generic_handler(name, {"ServerReflectionInfo": answer})
        server.add_generic_rpc_handlers((generic,))


async def _parsed(requests: AsyncIterator[Any]) -> AsyncIterator[Any]:
    """The requests; raises what one that does not parse became."""
    async for request in requests:
        if isinstance(request, ServiceError):
            raise request
        yield request


def _pool(services: Iterable[ServiceDescriptor]) -> DescriptorPool:
    """A pool with the files of all services, whose own pools may differ."""
    pool = DescriptorPool()
    names: set[str] = set()
    for service in services:
        _add(pool, service.file, names)
    _add(pool, reflection_pb2.DESCRIPTOR, names)
    # The file of v1 is that of v1alpha under its new name.
    v1 = descriptor_pb2.FileDescriptorProto()
    reflection_pb2.DESCRIPTOR.CopyToProto(v1)
    v1.name, v1.package = "grpc/reflection/v1/reflection.proto", V1
    for message in v1.message_type:
        for field in message.field:
            if field.type_name:  # to set an empty one would say that there is one
                field.type_name = field.type_name.replace(V1ALPHA, V1)
    for method in v1.service[0].method:
        method.input_type = method.input_type.replace(V1ALPHA, V1)
        method.output_type = method.output_type.replace(V1ALPHA, V1)
    pool.AddSerializedFile(v1.SerializeToString())
    return pool


def _add(pool: DescriptorPool, file: FileDescriptor | Any, names: set[str]) -> None:
    """Adds a file after those that it imports, each once."""
    if file.name in names:
        return
    names.add(file.name)
    for imported in file.dependencies:
        _add(pool, imported, names)
    pool.AddSerializedFile(file.serialized_pb)
