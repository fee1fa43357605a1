"""`farpoint-server ray`: deploys the server to a Ray cluster, or runs one of its own."""

import contextlib
import signal
import sys
import threading
from collections.abc import Sequence
from typing import Any

import structlog

from farpoint_server.config import cli
from farpoint_server.config.ray import RaySettings
from farpoint_server.errors import MissingPackageError, StartError
from farpoint_server.observability import logging
from farpoint_server.ray_serve.methods import APPLICATION

LOCAL = "local"
# Of HTTP, which answers nothing; without one Ray has no application.
ROUTE = f"/{APPLICATION}"
log = structlog.get_logger("farpoint")


def main(arguments: Sequence[str]) -> None:
    """Deploys, or rolls out what has changed, and ends; with a cluster of its own it stays.

    Exit status: 0 deployed, or drained after a signal; 2 it cannot be.
    """
    settings = cli.parse(arguments, RaySettings, "farpoint-server ray")
    logging.configure(settings)
    try:
        ray = _import_ray()
        _connect(ray, settings)
        told = _watch_signals()
        deploy(settings)
        log.info("deployed", application=APPLICATION, port=settings.ray_port)
        if settings.ray_address == LOCAL:
            told.wait()
            _end(ray)
    except (StartError, RuntimeError, ConnectionError) as error:
        logging.close()
        print(f"farpoint-server ray: {error}", file=sys.stderr)
        sys.exit(2)
    logging.close()


def deploy(settings: RaySettings) -> None:
    """Deploys to the cluster that Ray is connected to, and returns when replicas answer.

    Raises:
        StartError: Ray Serve runs there already, without our RPCs or on another port.
        RuntimeError: a replica cannot start.
    """
    import ray
    from ray import serve

    from farpoint_server.ray_serve.deployment import GRPC_FUNCTIONS, bind

    serve.start(
        proxy_location="EveryNode",
        http_options={"host": "127.0.0.1", "port": settings.ray_http_port},
        grpc_options={"port": settings.ray_port, "grpc_servicer_functions": [*GRPC_FUNCTIONS]},
        logging_config={"enable_access_log": False},
    )
    _check_proxies(settings)
    log.warning("open to other machines", port=settings.ray_port, see="docs/ray.md")
    serve.run(bind(settings, ray.cluster_resources()), name=APPLICATION, route_prefix=ROUTE)


def _check_proxies(settings: RaySettings) -> None:
    """What Ray Serve was started with holds until it is shut down, and it does not say so."""
    import ray
    from ray.serve._private.constants import SERVE_CONTROLLER_NAME, SERVE_NAMESPACE

    from farpoint_server.ray_serve.deployment import GRPC_FUNCTIONS

    controller = ray.get_actor(SERVE_CONTROLLER_NAME, namespace=SERVE_NAMESPACE)
    found = ray.get(controller.get_grpc_config.remote())
    if found.port != settings.ray_port or not {*GRPC_FUNCTIONS} <= {*found.grpc_servicer_functions}:
        raise StartError(
            f"Ray Serve runs on this cluster with gRPC port {found.port} and "
            f"functions {found.grpc_servicer_functions}: expected port {settings.ray_port} and "
            f"{[*GRPC_FUNCTIONS]}; end it with `serve shutdown`, or give it these"
        )


def _import_ray() -> Any:
    try:
        import ray
        import ray.serve
    except ImportError as error:
        raise MissingPackageError(f"install farpoint-server[ray]: {error}") from error
    return ray


def _connect(ray: Any, settings: RaySettings) -> None:
    address = None if settings.ray_address == LOCAL else settings.ray_address
    try:
        ray.init(address or "local", log_to_driver=address is None, include_dashboard=False)
    except (ConnectionError, ray.exceptions.RayError) as error:
        raise StartError(
            f"no Ray cluster at --ray-address {settings.ray_address}: start one with "
            f"`ray start --head`, or take --ray-address local ({error})"
        ) from error


def _watch_signals() -> threading.Event:
    """Set by a signal; called behind ray.init, which takes signals for itself."""
    told = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: told.set())
    return told


def _end(ray: Any) -> None:
    """Drains the replicas."""
    from ray import serve

    log.info("draining")
    with contextlib.suppress(KeyboardInterrupt):
        serve.delete(APPLICATION)
        serve.shutdown()
    ray.shutdown()
