"""Settings of requests, models and memory."""

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_settings import BaseSettings, NoDecode

from farpoint_server.memory.policy import MIB, Options


class RequestSettings(BaseSettings):
    """Requests, batches and draining (docs/deployment.md)"""

    max_message_bytes: int = Field(
        256 * MIB,
        ge=1024,
        le=(1 << 30) - 1,
        description="Largest request in bytes. A larger one is INVALID_ARGUMENT; beyond twice the "
        "limit it is not received at all, and RESOURCE_EXHAUSTED.",
    )
    max_request_points: int = Field(
        1 << 24, ge=1, lt=1 << 31, description="Most points of one request, in all of its clouds."
    )
    max_request_clouds: int = Field(1 << 16, ge=1, description="Most clouds of one request.")
    max_points_in_flight: int = Field(
        1 << 25,
        ge=1,
        description="Most points of all accepted requests together; beyond it a request is "
        "RESOURCE_EXHAUSTED at once.",
    )
    max_bytes_in_flight: int = Field(
        512 * MIB,
        ge=1024,
        description="Most bytes of the messages of all accepted requests together, refused as "
        "points are; also the most of one SampleLarge. At the bound the server holds two to three "
        "times as much.",
    )
    caller_share: float = Field(
        0.5,
        gt=0,
        le=1,
        description="Part of the points and bytes in flight that one caller may hold while others "
        "want some. A caller is a token, or else a network address, or a connection from this "
        "machine.",
    )
    receive_turns: int = Field(
        16,
        ge=1,
        description="Messages received at a time; flow control holds others back. Each needs twice "
        "its size until it is received, in two minutes at most.",
    )
    max_concurrent_rpcs: int = Field(
        2048,
        ge=1,
        description="Most requests open at once, each perhaps with one message; further ones are "
        "RESOURCE_EXHAUSTED, except of callers with a token below their share. Health, reflection "
        "and administration have slots of their own.",
    )
    max_caller_rpcs: int | None = Field(
        None,
        ge=1,
        description="Most requests that one caller has open at once; half of max_concurrent_rpcs "
        "unless given. Raise it behind a proxy.",
    )
    overload_retry_ms: int = Field(
        250,
        ge=0,
        description="Milliseconds after which a refused caller may retry: about a usual batch.",
    )
    batch_points: int = Field(
        1 << 20,
        ge=1,
        description="Points after which a batch takes no further request. Larger batches fill a "
        "GPU better; with smaller ones small requests wait less for large ones.",
    )
    long_work_ms: float = Field(
        30.0,
        ge=0,
        description="Milliseconds of predicted work above which a request is long. Long requests "
        "run at a lower priority, so that short ones pass them; 0 has all of them wait for each "
        "other.",
    )
    engine_timeout_s: float = Field(
        300.0,
        gt=0,
        description="Seconds that a batch may run. Then its callers get UNAVAILABLE, and health is "
        "NOT_SERVING while no other engine is left.",
    )
    drain_grace_s: float = Field(
        0.25,
        ge=0,
        description="Seconds after SIGTERM in which new calls are still accepted, though health is "
        "NOT_SERVING already: for load balancers.",
    )
    drain_timeout_s: float = Field(
        30.0,
        ge=0,
        description="Seconds that accepted calls then have to finish. Keep both together below "
        "the grace period of the orchestrator.",
    )


NONE = "none"
DEFAULT = "default"


def _split_text(value: Any) -> Any:
    """Items of a text separated by commas; the path of a repeated flag may have commas."""
    return tuple(item.strip() for item in value.split(",")) if isinstance(value, str) else value


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


_Items: TypeAlias = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split_text)]
Models: TypeAlias = Annotated[_Items, AfterValidator(lambda models: _check_models(models))]
Encoders: TypeAlias = Annotated[_Items, AfterValidator(_check_encoders)]


class ModelSettings(BaseSettings):
    """Models (docs/models.md)"""

    encoder: Encoders = Field(
        (DEFAULT,),
        description="Encoder to load: NAME=PATH of a safetensors file, default for the one that "
        "comes with the server, or none. Repeat the flag, or separate the variable by commas. "
        "Encode uses the first where a request names none.",
    )
    model: Models = Field(
        (),
        description="Model to load for Infer: NAME=PATH of a .pt2 archive of torch.export, "
        "which is code that runs in the server. Repeat the flag, or separate the "
        "variable by commas.",
    )
    max_encode_points: int = Field(
        1 << 19,
        ge=1,
        description="Most points in one request of Encode or Infer. The default encoder takes "
        "about 6 KB of memory for each point of a large cloud.",
    )


class MemorySettings(BaseSettings):
    """Memory (docs/operations.md)"""

    memory_policy: Literal["on", "off"] = Field(
        "on",
        description="Whether cached memory is handed back between requests. Turn it off only "
        "where the device has no other user and never will.",
    )
    memory_limit_mib: int | None = Field(
        None,
        ge=1,
        description="MiB that the server may hold of a device; work beyond is cut or refused. "
        "Without it the whole GPU, and on a CPU no limit. Set it where others share the GPU; the "
        "CUDA context takes about 500 MiB more.",
    )
    memory_reserve_mib: int = Field(
        512,
        ge=0,
        description="MiB of a GPU that predictions leave free, for libraries that allocate by "
        "themselves. Raise it if GetMemory counts retries of the allocator.",
    )
    memory_idle_s: float | None = Field(
        None,
        gt=0,
        description="Seconds without work after which all cached memory is handed back; without "
        "it 2 on a CPU and 30 on a GPU. Raise it where bursts come further apart than that.",
    )
    memory_expandable_segments: Literal["on", "off"] = Field(
        "off",
        description="Whether torch's segments grow page by page: less fragmentation where clouds "
        "differ much in size, slower trims.",
    )

    def memory_options(self) -> Options:
        """The same, in bytes, as the memory manager takes them."""
        limit = self.memory_limit_mib
        return Options(
            idle_s=self.memory_idle_s,
            limit_bytes=None if limit is None else limit * MIB,
            reserve_bytes=self.memory_reserve_mib * MIB,
            enabled=self.memory_policy == "on",
        )
