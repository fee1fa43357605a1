"""Registration of the gRPC servicers at the public and the admin server."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import grpc
from google.protobuf.descriptor import ServiceDescriptor
from grpc_health.v1 import health_pb2  # type: ignore[import-untyped]

from farpoint.v1 import admin_pb2, admin_pb2_grpc, sampling_pb2
from farpoint_server.codec.open_inference import fps
from farpoint_server.config.settings import Settings
from farpoint_server.services.admin import AdminServicer
from farpoint_server.services.open_inference import servicer as open_inference
from farpoint_server.services.open_inference.servicer import OpenInferenceServicer
from farpoint_server.services.sampling import SamplingServicer
from farpoint_server.transport import reflection
from farpoint_server.transport.health import Health
from farpoint_server.transport.http.calls import HandlerRegistry, Registries, UnaryCalls
from farpoint_server.transport.server import GrpcServers

HEALTH: ServiceDescriptor = health_pb2.DESCRIPTOR.services_by_name["Health"]
PUBLIC = (sampling_pb2.DESCRIPTOR.services_by_name["SamplingService"], open_inference.DESCRIPTOR)
ADMIN = (admin_pb2.DESCRIPTOR.services_by_name["AdminService"],)


SERVICES = (*PUBLIC, *ADMIN, HEALTH)
"""All that can be called over HTTP, where it is registered."""


@dataclass(frozen=True)
class Servicers:
    """What answers the calls."""

    sampling: SamplingServicer
    open_inference: OpenInferenceServicer
    admin: AdminServicer
    health: Health

    def add_to(
        self,
        servers: GrpcServers,
        http: UnaryCalls,
        admin_over_http: bool,
        wrap: Callable[[HandlerRegistry], HandlerRegistry] = lambda registry: registry,
    ) -> None:
        """Registers every service; health is at each port, reflection at those of gRPC.

        Args:
            servers: Of gRPC.
            http: Unary calls over HTTP.
            admin_over_http: Whether these may administer.
            wrap: What services register at, given a server.
        """
        public = wrap(Registries(servers.public, http))
        self.sampling.add_to(public)
        self.open_inference.add_to(public)
        is_public = servers.admin is servers.public
        self.open_inference.add_admin_to(wrap(servers.public), is_public)
        self.open_inference.add_admin_to(wrap(http), admin_over_http)
        self.health.add_to(public)
        shown = {servers.public: [*PUBLIC]}
        if servers.admin not in (None, servers.public):
            self.open_inference.add_descriptions_to(wrap(servers.admin))
            self.open_inference.add_admin_to(wrap(servers.admin), True)
            shown[servers.admin] = [open_inference.DESCRIPTOR]
        admin: list[HandlerRegistry] = [http] if admin_over_http else []
        if servers.admin is not None:
            admin.append(servers.admin)
            shown.setdefault(servers.admin, []).extend(ADMIN)
        # Which asks no more of a server than this.
        everywhere = cast(grpc.aio.Server, wrap(Registries(*admin)))
        admin_pb2_grpc.add_AdminServiceServicer_to_server(self.admin, everywhere)
        for server, services in shown.items():
            if server is not servers.public:
                self.health.add_to(server)
            reflection.add_to(server, (*services, HEALTH))

    def add_to_peers(self, registry: HandlerRegistry) -> None:
        """Registers what the processes of a server ask each other, for their own part alone."""
        self.open_inference.add_to(registry)
        self.open_inference.add_admin_to(registry, True)
        self.health.add_to(registry)
        server = cast(grpc.aio.Server, registry)
        admin_pb2_grpc.add_AdminServiceServicer_to_server(self.admin, server)


def health_names(settings: Settings) -> list[str]:
    """What health can be asked for: every service and every model."""
    services = (*PUBLIC, *(ADMIN if settings.admin_listen else ()), HEALTH)
    return [*(service.full_name for service in services), *reflection.SERVICES, fps.NAME]
