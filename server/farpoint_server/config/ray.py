"""Settings of `farpoint-server ray`: the cluster, its proxies, and how many replicas there are."""

from pydantic import Field, model_validator

from farpoint_server.config.settings import Settings

# What a proxy of Ray does instead, or what only one process on a machine can have.
_NOT_HERE = (
    "admin_listen",
    "tls_certificate",
    "tls_key",
    "tls_client_ca",
    "shared_memory_listen",
)


class RaySettings(Settings):
    """Those of the server, for each replica, and those of Ray; `listen` is left out of account."""

    ray_address: str = Field(
        "auto",
        min_length=1,
        description="Ray cluster to deploy to: auto for the one of this machine, HOST:PORT of its "
        "head, ray://HOST:PORT, or local for one of this process alone, which ends with it.",
    )
    ray_port: int = Field(
        50051,
        ge=1,
        le=65535,
        description="Port of gRPC on each node with a replica, and on the head. Ray opens it on "
        "every address of the node, in plain text.",
    )
    ray_http_port: int = Field(
        8000, ge=1, le=65535, description="Port of Ray Serve's HTTP proxies, on loopback; unused."
    )
    ray_min_replicas: int = Field(1, ge=1, description="Replicas that are always there.")
    ray_max_replicas: int | None = Field(
        None,
        ge=1,
        description="Most replicas. Without it as many as the cluster has room for at the time.",
    )
    ray_replica_cpus: int = Field(
        2, ge=1, description="Cores of a replica, and threads of its engine without cpu_threads."
    )
    ray_replica_gpus: float | None = Field(
        None,
        ge=0,
        description="GPUs of a replica, of one also a part. Without it one, where device is a GPU "
        "or is auto and the cluster has some, else none.",
    )
    ray_target_requests: float = Field(
        8.0,
        gt=0,
        description="Requests under way for each replica at which their number stays as it is; "
        "with more there will be more replicas.",
    )
    ray_max_requests: int = Field(
        64, ge=1, description="Most requests under way at a replica; further ones wait in proxies."
    )
    ray_max_queued: int = Field(
        256,
        ge=1,
        description="Most requests that wait in one proxy, with their messages; further ones are "
        "refused with RESOURCE_EXHAUSTED.",
    )
    ray_upscale_delay_s: float = Field(
        10.0, ge=0, description="Seconds of too much work after which replicas are added."
    )
    ray_downscale_delay_s: float = Field(
        300.0, ge=0, description="Seconds of too little work after which replicas are taken away."
    )

    @model_validator(mode="after")
    def _check_ray(self) -> "RaySettings":
        for name in _NOT_HERE:
            if getattr(self, name):
                raise ValueError(f"{name} has no effect behind Ray's proxies; see docs/ray.md")
        if self.http_listen is not None and not self.http_listen.endswith(":0"):
            raise ValueError(
                "http_listen: several replicas of a node cannot share a port: expected HOST:0, "
                f"got {self.http_listen!r}"
            )
        if self.ray_max_replicas is not None and self.ray_max_replicas < self.ray_min_replicas:
            raise ValueError(
                f"ray_max_replicas ({self.ray_max_replicas}) is below ray_min_replicas "
                f"({self.ray_min_replicas})"
            )
        return self

    def of_replica(self, has_gpu: bool) -> Settings:
        """Those of the server in a replica, which sees the GPUs that Ray has given it."""
        values = {name: getattr(self, name) for name in Settings.model_fields}
        values |= {"listen": (), "admin_listen": (), "config": None}
        chosen = "cuda:0" if has_gpu else "cpu"
        values["device"] = tuple(chosen if name == "auto" else name for name in self.device)
        values["cpu_threads"] = self.cpu_threads or self.ray_replica_cpus
        return Settings.model_construct(**values)
