"""The application that Ray Serve is given, and the handlers that its gRPC proxies register."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import grpc
from google.protobuf.descriptor import MethodDescriptor

from farpoint_server.config.settings import Settings
from farpoint_server.ray_serve.methods import METHODS, SERVICES

if TYPE_CHECKING:
    from ray.serve import Application

# Settings for which Ray's proxies stand in, or that would reach only one replica.
NOT_HERE = ("admin_listen", "tls_certificate", "tls_client_ca", "shared_memory_listen")


def application(arguments: Mapping[str, Any]) -> "Application":
    """An application for `import_path` of a configuration of Ray Serve.

    Args:
        arguments: Settings of the server by name; others come from the environment.

    Raises:
        ValueError: a setting is unknown, wrong or without effect behind Ray's proxies.
    """
    from ray import serve

    from farpoint_server.ray_serve.replica import Replica

    return serve.deployment(Replica).bind(replica_settings(Settings(**arguments)))


def replica_settings(settings: Settings) -> Settings:
    """Settings of a replica, which has no gRPC port.

    Raises:
        ValueError: one has no effect behind Ray's proxies.
    """
    for name in NOT_HERE:
        if getattr(settings, name):
            raise ValueError(f"{name} has no effect behind Ray's proxies; see docs/deployment.md")
    if settings.http_listen is not None and not settings.http_listen.endswith(":0"):
        raise ValueError(
            "http_listen: replicas of one node cannot share a port: expected HOST:0, got "
            f"{settings.http_listen!r}"
        )
    return settings.model_copy(update={"listen": (), "config": None})


def add_to_server(_: object, server: Any) -> None:
    """Registers every RPC, for `grpc_servicer_functions`; Ray replaces the handlers.

    Messages stay serialized and are parsed in a replica.
    """
    for service in SERVICES:
        handlers = {m.name: _handler(m) for m in METHODS if m.containing_service is service}
        generic = grpc.method_handlers_generic_handler(service.full_name, handlers)
        server.add_generic_rpc_handlers((generic,))


def _handler(method: MethodDescriptor) -> Any:
    asks = "stream" if method.client_streaming else "unary"
    answers = "stream" if method.server_streaming else "unary"
    return getattr(grpc, f"{asks}_{answers}_rpc_method_handler")(_refuse)


async def _refuse(_: object, context: Any) -> None:
    await context.abort(grpc.StatusCode.UNIMPLEMENTED, "Ray Serve has not taken this method")
