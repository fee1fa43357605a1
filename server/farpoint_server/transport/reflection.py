"""gRPC server reflection, as v1alpha (which grpcio brings) and as v1 (which tools ask first)."""

from collections.abc import Iterable
from typing import Any

import grpc
from google.protobuf import descriptor_pb2
from google.protobuf.descriptor import FileDescriptor, ServiceDescriptor
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_reflection.v1alpha import reflection, reflection_pb2  # type: ignore[import-untyped]

V1ALPHA = "grpc.reflection.v1alpha"
V1 = "grpc.reflection.v1"
SERVICES = (f"{V1ALPHA}.ServerReflection", f"{V1}.ServerReflection")


def add_to(server: grpc.aio.Server, services: Iterable[ServiceDescriptor]) -> None:
    """Lets clients ask `server` for the descriptors of its services and of reflection itself."""
    described = tuple(services)
    servicer = reflection.aio.ReflectionServicer(
        (*(service.full_name for service in described), *SERVICES), pool=_pool(described)
    )
    # The messages of both versions are the same on the wire; only the package's name differs.
    answer = grpc.stream_stream_rpc_method_handler(
        servicer.ServerReflectionInfo,
        request_deserializer=reflection_pb2.ServerReflectionRequest.FromString,
        response_serializer=reflection_pb2.ServerReflectionResponse.SerializeToString,
    )
    server.add_generic_rpc_handlers(
        tuple(
            grpc.method_handlers_generic_handler(name, {"ServerReflectionInfo": answer})
            for name in SERVICES
        )
    )


def _pool(services: Iterable[ServiceDescriptor]) -> DescriptorPool:
    """What reflection answers from: the files of services, whose own pools may differ."""
    pool = DescriptorPool()
    names: set[str] = set()
    for service in services:
        _add(pool, service.file, names)
    _add(pool, reflection_pb2.DESCRIPTOR, names)
    pool.AddSerializedFile(_describe_v1().SerializeToString())
    return pool


def _add(pool: DescriptorPool, file: FileDescriptor | Any, names: set[str]) -> None:
    """Adds a file after those that it imports, each once."""
    if file.name in names:
        return
    names.add(file.name)
    for imported in file.dependencies:
        _add(pool, imported, names)
    pool.AddSerializedFile(file.serialized_pb)


def _describe_v1() -> descriptor_pb2.FileDescriptorProto:
    """The file of v1: that of v1alpha under its new name."""
    file = descriptor_pb2.FileDescriptorProto()
    reflection_pb2.DESCRIPTOR.CopyToProto(file)
    file.name = "grpc/reflection/v1/reflection.proto"
    file.package = V1
    for message in file.message_type:
        for field in filter(lambda field: field.type_name, message.field):
            field.type_name = field.type_name.replace(V1ALPHA, V1)
    for service in file.service:
        for method in service.method:
            method.input_type = method.input_type.replace(V1ALPHA, V1)
            method.output_type = method.output_type.replace(V1ALPHA, V1)
    return file
