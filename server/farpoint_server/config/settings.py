"""Every setting of the server, as one frozen pydantic-settings object.

A field is a flag, an environment variable (``FARPOINT_`` and its name in capitals) and a key of
the YAML file that ``--config`` names. A flag wins over the environment, the environment over the
file, and the file over the default. The docstring of a group is its title in `--help`.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from pydantic import AfterValidator, Field, model_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    YamlConfigSettingsSource,
)

from farpoint_server.compute.memory.policy import MIB
from farpoint_server.config.network import (
    AccessSettings,
    Addresses,
    ConnectionSettings,
    HttpSettings,
    Several,
    is_local,
    is_unix,
)

# For `--processes auto`: an event loop keeps one core busy, its kernels and decoding another.
# Beyond 16 the network or the device is usually the bound, and each process takes memory.
CORES_EACH = 2
MAX_PROCESSES = 16
Device: TypeAlias = Annotated[str, Field(pattern=r"^(auto(:all)?|cpu|cuda(:\d+)?)$")]


class BasicSettings(BaseSettings, use_attribute_docstrings=True):
    """Addresses, devices, processes and log"""

    listen: Addresses = Field(("127.0.0.1:50051",), min_length=1)
    """Address to serve gRPC on: HOST:PORT (port 0 takes a free one) or unix:PATH. Repeat the flag,
    or separate by commas. Beyond loopback set TLS and tokens too, unless you trust the network."""
    device: Several[Device] = Field(("auto",), min_length=1)
    """Device to sample on: cpu, cuda:N, auto (the CPU and the first GPU, if there is one), or
    auto:all (the CPU and every GPU). Name it in production, so that a missing GPU is an error.
    Repeat the flag, or separate by commas; a request goes to the device that is predicted to finish
    it first."""
    cpu_threads: int = Field(0, ge=0)
    """Threads of each CPU engine, which then runs one batch at a time. 0 shares the available
    cores among up to 8 batches at a time, or among several CPU engines."""
    processes: Annotated[int, Field(ge=1, le=256)] | Literal["auto"] = 1
    """Front ends of one server, for more requests than one event loop can serve; auto is one per
    two cores, 16 at most. With several, one more process has the devices and models. They share the
    ports of listen: with as many ports as front ends each has its own."""
    config: Path | None = None
    """YAML file with any of these settings; keys are written with underscores."""
    log_format: Literal["auto", "json", "console"] = "auto"
    """Format of log lines; auto is console on a terminal, else json."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Lowest level to log; info has the line "ready" and one line per request."""


class RequestSettings(BaseSettings, use_attribute_docstrings=True):
    """Requests, batches and draining (docs/deployment.md)"""

    max_message_bytes: int = Field(256 * MIB, ge=1024, le=(1 << 30) - 1)
    """Maximum size of a request in bytes. A larger one is INVALID_ARGUMENT; above twice the limit
    it is not received and is RESOURCE_EXHAUSTED."""
    max_request_points: int = Field(1 << 24, ge=1, lt=1 << 31)
    """Maximum number of points of one request, over all of its clouds."""
    max_points_in_flight: int = Field(1 << 25, ge=1)
    """Maximum number of points of all accepted requests together; a request beyond it is
    RESOURCE_EXHAUSTED at once."""
    max_bytes_in_flight: int = Field(512 * MIB, ge=1024)
    """Maximum size of the messages of all accepted requests together, in bytes; a request beyond it
    is RESOURCE_EXHAUSTED at once. Also the maximum of one SampleLarge. At this bound the server
    uses two to three times as much memory."""
    caller_share: float = Field(0.5, gt=0, le=1)
    """Fraction of the points and bytes in flight that one caller may hold while others wait. A
    caller is a token; without tokens it is a network address, or a connection from this machine."""
    receive_turns: int = Field(16, ge=1)
    """Messages received at a time; flow control delays the others. Each takes twice its size in
    memory while it arrives, for at most two minutes."""
    max_concurrent_rpcs: int = Field(2048, ge=1)
    """Maximum number of open requests; further ones are RESOURCE_EXHAUSTED, except those of callers
    with a token below their share. Health, reflection and administration have separate slots."""
    max_caller_rpcs: int | None = Field(None, ge=1)
    """Maximum number of open requests of one caller; by default half of max_concurrent_rpcs. Raise
    it behind a proxy."""
    batch_points: int = Field(1 << 20, ge=1)
    """Number of points at which a batch is full. Larger batches use a GPU better; with smaller ones
    small requests wait less for large ones."""
    engine_timeout_s: float = Field(300.0, gt=0)
    """Seconds that a batch may run. After that its callers get UNAVAILABLE, and health is
    NOT_SERVING if no other engine works."""
    drain_grace_s: float = Field(0.25, ge=0)
    """Seconds after SIGTERM during which new calls are still accepted although health is
    NOT_SERVING, so that load balancers can react."""
    drain_timeout_s: float = Field(30.0, ge=0)
    """Seconds after that for accepted calls to finish. Keep the sum of both below the grace period
    of the orchestrator."""


NONE = "none"
DEFAULT = "default"


def _check_models(models: tuple[str, ...], expected: str = "NAME=PATH") -> tuple[str, ...]:
    for model in models:
        name, _, path = model.partition("=")
        if not (name and path):
            raise ValueError(f"expected {expected}, got {model!r}")
    return models


def _check_encoders(encoders: tuple[str, ...]) -> tuple[str, ...]:
    given = tuple(encoder for encoder in encoders if encoder not in (DEFAULT, NONE))
    _check_models(given, "NAME=PATH, default or none")
    return tuple(encoder for encoder in encoders if encoder != NONE)


Models: TypeAlias = Annotated[Several[str], AfterValidator(lambda models: _check_models(models))]
Encoders: TypeAlias = Annotated[Several[str], AfterValidator(_check_encoders)]


class ModelSettings(BaseSettings, use_attribute_docstrings=True):
    """Models (docs/models.md)"""

    encoder: Encoders = (DEFAULT,)
    """Encoder to load: NAME=PATH of a safetensors file, "default" for the shipped one, or "none".
    Repeat the flag, or separate the variable by commas. Encode uses the first one unless the
    request names another."""
    model: Models = ()
    """Model to load for ModelInfer: NAME=PATH of a .pt2 archive of torch.export, which is code that
    runs in the server. Repeat the flag, or separate the variable by commas."""
    max_encode_points: int = Field(1 << 19, ge=1)
    """Maximum number of points of one request to a model. The default encoder takes about 6 KB of
    memory for each point of a large cloud."""


class MemorySettings(BaseSettings, use_attribute_docstrings=True):
    """Memory (docs/operations.md)"""

    memory_limit_mib: int | None = Field(None, ge=1)
    """MiB of a device that the server may use; work beyond it is split or refused. Default: the
    whole GPU, and no limit on a CPU. Set it where others share the GPU; the CUDA context takes
    about 500 MiB more."""
    memory_idle_s: float | None = Field(None, gt=0)
    """Seconds without work after which all cached memory is returned. Default: 2 on a CPU and 30 on
    a GPU. Raise it where the pauses between bursts are longer, or nothing else uses the device."""


class Settings(
    BasicSettings,
    AccessSettings,
    HttpSettings,
    ModelSettings,
    RequestSettings,
    ConnectionSettings,
    MemorySettings,
):
    """All settings; `farpoint-server --help` prints the description of each."""

    model_config = SettingsConfigDict(env_prefix="FARPOINT_", frozen=True, extra="forbid")

    @model_validator(mode="after")
    def _check_bounds(self) -> "Settings":
        for one, all_of_them in (
            ("max_request_points", "max_points_in_flight"),
            ("max_message_bytes", "max_bytes_in_flight"),
        ):
            if getattr(self, one) > getattr(self, all_of_them):
                raise ValueError(
                    f"{one} ({getattr(self, one)}) is above {all_of_them} "
                    f"({getattr(self, all_of_them)}): such a request could never be accepted"
                )
        return self

    @model_validator(mode="after")
    def _check_access(self) -> "Settings":
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ValueError("tls_certificate and tls_key belong together; only one is given")
        if self.tls_client_ca is not None and self.tls_key is None:
            raise ValueError("tls_client_ca needs tls_certificate and tls_key")
        for address in self.admin_listen:
            if not is_local(address) and not self.knows_callers:
                raise ValueError(
                    f"admin_listen {address} is beyond loopback and would be open to anyone: "
                    "give tokens_file or tls_client_ca"
                )
        return self

    @model_validator(mode="after")
    def _check_processes(self) -> "Settings":
        lone = [address for address in self.listen if is_unix(address)]
        lone += [self.shared_memory_listen] if self.shared_memory_listen else []
        if self.processes != 1 and lone:
            raise ValueError(
                f"processes ({self.processes}): expected addresses HOST:PORT, which processes "
                f"can share, got {lone[0]}; give 1 or another address"
            )
        return self

    @property
    def knows_callers(self) -> bool:
        """Whether callers must show a token or a certificate."""
        return self.tokens_file is not None or self.tls_client_ca is not None

    @property
    def admin_over_http(self) -> bool:
        """Whether the admin service is on the HTTP port too."""
        return self.http_listen in self.admin_listen

    @property
    def process_count(self) -> int:
        """Processes on this machine, where `auto` counts its cores."""
        if self.processes != "auto":
            return self.processes
        return min(max(len(os.sched_getaffinity(0)) // CORES_EACH, 1), MAX_PROCESSES)

    def unguarded(self) -> dict[str, list[str]] | None:
        """Addresses beyond this machine and the flags that would guard them; None if none is."""
        http = () if self.http_listen is None else (self.http_listen,)
        addresses = [a for a in (*self.listen, *self.admin_listen, *http) if not is_local(a)]
        missing = ["--tls-certificate and --tls-key"] if self.tls_key is None else []
        missing += [] if self.knows_callers else ["--tokens-file or --tls-client-ca"]
        return {"addresses": addresses, "missing": missing} if addresses and missing else None

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        path = init_settings().get("config") or env_settings().get("config")
        sources = (init_settings, env_settings)
        return (*sources, YamlConfigSettingsSource(settings_cls, path)) if path else sources


GROUPS: Sequence[type[BaseSettings]] = Settings.__bases__
"""In the order of `--help`, the most used first."""
