"""The application that Ray Serve is given: a deployment of replicas, made of the settings."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from farpoint_server.config.ray import RaySettings
from farpoint_server.ray_serve.replica import Replica

if TYPE_CHECKING:
    from ray.serve import Application

GRPC_FUNCTIONS = ("farpoint_server.ray_serve.proxy.add_to_server",)
"""For `grpc_servicer_functions` of Ray Serve's configuration."""
HEALTH_PERIOD_S = 5.0


def application(arguments: Mapping[str, Any]) -> "Application":
    """An application for `import_path` of a configuration of Ray Serve, as KubeRay takes it.

    Args:
        arguments: Settings by name, such as `ray_max_replicas`; others come from the environment.

    Raises:
        pydantic.ValidationError: one is unknown or wrong.
    """
    import ray

    return bind(RaySettings(**arguments), ray.cluster_resources())


def bind(settings: RaySettings, resources: Mapping[str, float]) -> "Application":
    """The application; `resources` are those of the cluster, by Ray's names."""
    from ray import serve

    deployment = serve.deployment(Replica, name="Replica").options(
        **options_of(settings, resources)
    )
    return deployment.bind(settings.of_replica(has_gpu=gpus_of(settings, resources) > 0))


def options_of(settings: RaySettings, resources: Mapping[str, float]) -> dict[str, Any]:
    """Options of the deployment."""
    gpus = gpus_of(settings, resources)
    return {
        "ray_actor_options": {"num_cpus": settings.ray_replica_cpus, "num_gpus": gpus},
        "autoscaling_config": {
            "min_replicas": settings.ray_min_replicas,
            "max_replicas": settings.ray_max_replicas or _room(settings, resources, gpus),
            "target_ongoing_requests": settings.ray_target_requests,
            "upscale_delay_s": settings.ray_upscale_delay_s,
            "downscale_delay_s": settings.ray_downscale_delay_s,
        },
        "max_ongoing_requests": settings.ray_max_requests,
        "max_queued_requests": settings.ray_max_queued,
        "graceful_shutdown_timeout_s": settings.drain_grace_s + settings.drain_timeout_s,
        "health_check_period_s": HEALTH_PERIOD_S,
        # A line for each request is ours.
        "logging_config": {"enable_access_log": False},
    }


def gpus_of(settings: RaySettings, resources: Mapping[str, float]) -> float:
    """GPUs of a replica."""
    if settings.ray_replica_gpus is not None:
        return settings.ray_replica_gpus
    names = settings.device
    has_gpu = any(name.startswith("cuda") for name in names)
    return 1.0 if has_gpu or ("auto" in names and resources.get("GPU", 0) > 0) else 0.0


def _room(settings: RaySettings, resources: Mapping[str, float], gpus: float) -> int:
    """Replicas for which the cluster has cores and GPUs, at least those that are asked for."""
    rooms = [resources.get("CPU", 0) / settings.ray_replica_cpus]
    if gpus:
        rooms.append(resources.get("GPU", 0) / gpus)
    return max(settings.ray_min_replicas, int(min(rooms)))
