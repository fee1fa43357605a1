"""Every setting of the server, as one frozen pydantic-settings object.

A field is a flag, an environment variable (``FARPOINT_`` and its name in capitals) and a key of
the YAML file that ``--config`` names. A flag wins over the environment, the environment over the
file, and the file over the default. The docstring of a group is its title in `--help`.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from pydantic import Field, model_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    YamlConfigSettingsSource,
)

from farpoint_server.config.limits import MemorySettings, ModelSettings, RequestSettings
from farpoint_server.config.network import (
    AccessSettings,
    Addresses,
    ConnectionSettings,
    HttpSettings,
    Several,
    is_local,
    is_unix,
)

# Of `--processes auto`. An event loop keeps one core busy, its kernels and decoding another; beyond
# 16 the network or the device is the bound as a rule, and each process takes memory.
CORES_EACH = 2
MAX_PROCESSES = 16
Device: TypeAlias = Annotated[str, Field(pattern=r"^(auto(:all)?|cpu|cuda(:\d+)?)$")]


class BasicSettings(BaseSettings, use_attribute_docstrings=True):
    """Addresses, devices, processes and log"""

    listen: Addresses = Field(("127.0.0.1:50051",), min_length=1)
    """Address to serve gRPC on: HOST:PORT (port 0 takes a free one) or unix:PATH. Repeat the flag,
    or separate by commas. Beyond loopback set TLS and tokens too, unless you trust the network."""
    device: Several[Device] = Field(("auto",), min_length=1)
    """Device to sample on: cpu, cuda:N, auto (cuda:0 if there is one), or auto:all (the CPU and
    every GPU). Name it in production, so that a missing GPU is an error. Repeat the flag, or
    separate by commas; a request goes to the device that is predicted to finish it first."""
    cpu_threads: int = Field(0, ge=0)
    """Threads of each CPU engine, which then runs one batch at a time. 0 shares the available
    cores: among the devices, and with --device cpu alone among up to 8 batches at a time."""
    processes: Annotated[int, Field(ge=1, le=256)] | Literal["auto"] = 1
    """Processes that share the addresses HOST:PORT, for more small requests than one event loop can
    serve; auto is one per two cores, 16 at most. They share the limits of points, bytes and memory,
    the threads and the GPUs."""
    config: Path | None = None
    """YAML file with any of these settings; keys are written with underscores."""
    log_format: Literal["auto", "json", "console"] = "auto"
    """Format of log lines; auto is console on a terminal, else json."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Lowest level to log; info has the line "ready" and one line per request."""


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
        if self.max_connection_age_grace_s is not None and self.max_connection_age_s is None:
            raise ValueError("max_connection_age_grace_s needs max_connection_age_s")
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
