"""Every setting of the server, as one frozen pydantic-settings object.

A field is a flag, an environment variable (``FARPOINT_`` and its name in capitals) and a key of
the YAML file that ``--config`` names. A flag wins over the environment, the environment over the
file, and the file over the default.
"""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    YamlConfigSettingsSource,
)

from farpoint_server.config.addresses import check_addresses, is_local, is_unix, split_commas
from farpoint_server.config.memory import MemorySettings
from farpoint_server.config.models import ModelSettings
from farpoint_server.config.network import NetworkSettings
from farpoint_server.config.processes import ProcessSettings

MIB = 1 << 20
Device = Annotated[str, Field(pattern=r"^(auto(:all)?|cpu|cuda(:\d+)?)$")]


class Settings(NetworkSettings, MemorySettings, ModelSettings, ProcessSettings):
    """See the description of each field; `farpoint-server --help` prints them."""

    model_config = SettingsConfigDict(env_prefix="FARPOINT_", frozen=True, extra="forbid")

    config: Path | None = Field(
        None, description="YAML file with any of these settings, keys written with underscores."
    )
    listen: Annotated[tuple[str, ...], NoDecode] = Field(
        ("127.0.0.1:50051",),
        min_length=1,
        description="Address to serve on: HOST:PORT (port 0 takes a free one) or unix:PATH. "
        "Repeat the flag, or separate by commas, for several. Beyond loopback, give TLS and "
        "tokens too, unless you trust the network.",
    )
    device: Annotated[tuple[Device, ...], NoDecode] = Field(
        ("auto",),
        min_length=1,
        description="Where sampling runs: cpu, cuda:N, auto (cuda:0 if there is one), or "
        "auto:all, which takes the CPU and every GPU. Name it in production, so that a missing GPU "
        "is an error. Repeat the flag, or separate by commas, for several: a request "
        "goes where it is predicted to end first.",
    )
    cpu_threads: int = Field(
        0,
        ge=0,
        description="Threads of each CPU engine; 0 shares out the cores the process may use. "
        "Lower it where others share the machine.",
    )
    max_message_bytes: int = Field(
        256 * MIB,
        ge=1024,
        le=(1 << 30) - 1,
        description="Largest request, in bytes. A larger one is refused with INVALID_ARGUMENT; "
        "beyond twice the limit it is not even received, and gRPC answers RESOURCE_EXHAUSTED. "
        "A client must raise its own limit for large answers.",
    )
    max_request_points: int = Field(
        1 << 24,
        ge=1,
        lt=1 << 31,
        description="Most points in one request, over all of its clouds.",
    )
    max_request_clouds: int = Field(1 << 16, ge=1, description="Most clouds in one request.")
    max_points_in_flight: int = Field(
        1 << 25,
        ge=1,
        description="Most points of all accepted requests together; beyond it a request is "
        "refused at once with RESOURCE_EXHAUSTED.",
    )
    max_bytes_in_flight: int = Field(
        512 * MIB,
        ge=1024,
        description="Most bytes of the messages of all accepted requests together, refused as for "
        "points. Also the most that SampleLarge accepts. At the bound the server holds up to "
        "two to three times as much: float64 and halves are converted, batches are joined.",
    )
    caller_share: float = Field(
        0.5,
        gt=0,
        le=1,
        description="Part of the points and bytes in flight that one caller may hold while others "
        "hold or want some; alone it may have all. A caller is a token, or else a network address, "
        "or a connection from this machine.",
    )
    receive_turns: int = Field(
        16,
        ge=1,
        description="Messages that are received at a time; flow control holds others back at "
        "their senders. A message needs twice its size until it is received. One that takes two "
        "minutes is refused; SampleLarge sends large ones in pieces.",
    )
    max_concurrent_rpcs: int = Field(
        2048,
        ge=1,
        description="Most requests open at once; others are refused with RESOURCE_EXHAUSTED, but "
        "for callers with a token below their share. Health, reflection and administration have "
        "slots of their own. Lower it where requests are large: each open call may hold one "
        "message.",
    )
    max_caller_rpcs: int | None = Field(
        None,
        ge=1,
        description="Most requests that one caller has open at once: one token or, without tokens, "
        "one address. Half of max_concurrent_rpcs, unless given; raise it behind a proxy.",
    )
    overload_retry_ms: int = Field(
        250,
        ge=0,
        description="Milliseconds that a refused caller is told to wait. About the time "
        "of a usual batch is right.",
    )
    batch_points: int = Field(
        1 << 20,
        ge=1,
        description="Points after which a batch takes no further request. Larger batches fill a "
        "GPU better; smaller ones keep small requests from waiting for large ones.",
    )
    long_work_ms: float = Field(
        30.0,
        ge=0,
        description="Milliseconds of predicted work above which a request is long. Long requests "
        "run beside the others, at a lower priority, so that short ones pass them; 0 has all of "
        "them wait for each other.",
    )
    engine_timeout_s: float = Field(
        300.0,
        gt=0,
        description="Seconds that a batch may run. Then its callers are answered UNAVAILABLE, and "
        "health is NOT_SERVING while no other engine is left: the sign to restart the process.",
    )
    drain_grace_s: float = Field(
        0.25,
        ge=0,
        description="Seconds after SIGTERM in which new calls are still accepted, though health "
        "is NOT_SERVING already: the time that calls under way and load balancers need.",
    )
    drain_timeout_s: float = Field(
        30.0,
        ge=0,
        description="Seconds that accepted calls then have to finish. Keep both together below "
        "the time that the orchestrator gives.",
    )
    log_format: Literal["auto", "json", "console"] = Field(
        "auto", description="How log lines look; auto is console on a terminal and json elsewhere."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info",
        description="Least severe line that is logged; info has the ready line "
        "and one line per request.",
    )

    @field_validator("listen", "device", mode="before")
    @classmethod
    def _split_list(cls, value: Any) -> Any:
        return split_commas(value)

    @field_validator("device", mode="before")
    @classmethod
    def _split_each(cls, value: Any) -> Any:
        """A flag that is repeated may itself have commas."""
        if not isinstance(value, list | tuple) or not all(isinstance(v, str) for v in value):
            return value
        return tuple(name.strip() for part in value for name in part.split(","))

    @field_validator("listen")
    @classmethod
    def _check_addresses(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        check_addresses(value)
        return value

    @model_validator(mode="after")
    def _check_bounds(self) -> "Settings":
        if self.max_request_points > self.max_points_in_flight:
            raise ValueError(
                f"max_request_points ({self.max_request_points}) is above max_points_in_flight "
                f"({self.max_points_in_flight}): such a request could never be accepted"
            )
        if self.max_message_bytes > self.max_bytes_in_flight:
            raise ValueError(
                f"max_message_bytes ({self.max_message_bytes}) is above max_bytes_in_flight "
                f"({self.max_bytes_in_flight}): such a request could never be accepted"
            )
        return self

    @model_validator(mode="after")
    def _check_processes(self) -> "Settings":
        if self.processes != 1:
            lone = [address for address in self.listen if is_unix(address)]
            lone += [self.shared_memory_listen] if self.shared_memory_listen else []
            if lone:
                raise ValueError(
                    f"processes ({self.processes}): expected addresses HOST:PORT, which processes "
                    f"can share, got {lone[0]}; give 1 or another address"
                )
        return self

    def unguarded(self) -> dict[str, list[str]] | None:
        """Addresses of calls beyond this machine and what guards them not; None if all is well."""
        http = () if self.http_listen is None else (self.http_listen,)
        addresses = [a for a in (*self.listen, *self.admin_listen, *http) if not is_local(a)]
        missing = ["--tls-certificate and --tls-key"] if self.tls_key is None else []
        if self.tokens_file is None and self.tls_client_ca is None:
            missing.append("--tokens-file or --tls-client-ca")
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
