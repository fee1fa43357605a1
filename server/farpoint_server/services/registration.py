"""Registration of the gRPC servicers at the public and the admin server."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import grpc
from google.protobuf.descriptor import ServiceDescriptor
from grpc_health.v1 import health_pb2  # type: ignore[import-untyped]

from farpoint_server.codec.open_inference import fps
from farpoint_server.config.settings import Settings
from farpoint_server.services import admin, sampling
from farpoint_server.services.methods import Handler, Methods, refusals
from farpoint_server.services.open_inference import servicer as open_inference
from farpoint_server.transport import reflection
from farpoint_server.transport.health import Health
from farpoint_server.transport.http.calls import HandlerRegistry, Registries, UnaryCalls
from farpoint_server.transport.server import GrpcServers

HEALTH: ServiceDescriptor = health_pb2.DESCRIPTOR.services_by_name["Health"]
PUBLIC = (sampling.DESCRIPTOR, open_inference.DESCRIPTOR)
ADMIN = (admin.DESCRIPTOR,)
SERVICES = (*PUBLIC, *ADMIN, HEALTH)
"""Methods that can be called over HTTP, where registered."""
ADMIN_ALONE = " is served only at the addresses of --admin-listen"
Wrap: TypeAlias = Callable[[str, Handler], Handler]
"""Given the path of a method and its handler: what is registered instead."""


def register(
    registry: HandlerRegistry,
    service: ServiceDescriptor,
    methods: Methods,
    wrap: Wrap = lambda _, handler: handler,
) -> None:
    """Registers methods of a service."""
    name = service.full_name
    wrapped = {method: wrap(f"/{name}/{method}", handler) for method, handler in methods.items()}
    registry.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(name, wrapped),))


@dataclass(frozen=True)
class Servicers:
    """The servicers of all services."""

    sampling: sampling.SamplingServicer
    open_inference: open_inference.OpenInferenceServicer
    admin: admin.AdminServicer
    health: Health

    def add_to(
        self,
        servers: GrpcServers,
        http: UnaryCalls,
        admin_over_http: bool,
        wrap: Wrap = lambda _, handler: handler,
    ) -> None:
        """Registers every service; health is at each port, reflection at those of gRPC.

        Args:
            servers: Of gRPC.
            http: Unary calls over HTTP.
            admin_over_http: Whether these may administer.
            wrap: Makes of a handler what answers for all processes.
        """
        inference, (administration,) = self.open_inference, ADMIN
        public, is_public = Registries(servers.public, http), servers.admin is servers.public
        register(public, sampling.DESCRIPTOR, self.sampling.methods())
        register(public, open_inference.DESCRIPTOR, inference.inference())
        register(public, open_inference.DESCRIPTOR, inference.descriptions(), wrap)
        self.health.add_to(public)
        for registry, administers in ((servers.public, is_public), (http, admin_over_http)):
            loading = inference.administration()
            if administers:
                register(registry, open_inference.DESCRIPTOR, loading, wrap)
                register(registry, administration, self.admin.methods(), wrap)
                continue
            register(registry, open_inference.DESCRIPTOR, refusals(loading, ADMIN_ALONE))
            if registry is servers.public:  # where gRPC would say "Method not found!"
                register(registry, administration, refusals(self.admin.methods(), ADMIN_ALONE))
        if servers.admin is not None and not is_public:
            for methods in (inference.descriptions(), inference.administration()):
                register(servers.admin, open_inference.DESCRIPTOR, methods, wrap)
            register(servers.admin, administration, self.admin.methods(), wrap)
            self.health.add_to(servers.admin)
            reflection.add_to(servers.admin, (open_inference.DESCRIPTOR, *ADMIN, HEALTH))
        reflection.add_to(servers.public, (*PUBLIC, *(ADMIN if is_public else ()), HEALTH))

    def add_to_peers(self, registry: HandlerRegistry) -> None:
        """Registers calls between the processes of a server, each for its own part."""
        for methods in (self.open_inference.descriptions(), self.open_inference.administration()):
            register(registry, open_inference.DESCRIPTOR, methods)
        register(registry, admin.DESCRIPTOR, self.admin.methods())
        self.health.add_to(registry)


def health_names(settings: Settings) -> list[str]:
    """The names in health: every service and every model."""
    services = (*PUBLIC, *(ADMIN if settings.admin_listen else ()), HEALTH)
    return [*(service.full_name for service in services), *reflection.SERVICES, fps.NAME]
