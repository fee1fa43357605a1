"""Settings of requests, models and memory."""

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_settings import BaseSettings, NoDecode

from farpoint_server.memory.policy import MIB


class RequestSettings(BaseSettings, use_attribute_docstrings=True):
    """Requests, batches and draining (docs/deployment.md)"""

    max_message_bytes: int = Field(256 * MIB, ge=1024, le=(1 << 30) - 1)
    """Maximum size of a request in bytes. A larger one is INVALID_ARGUMENT; above twice the limit
    it is not received and is RESOURCE_EXHAUSTED."""
    max_request_points: int = Field(1 << 24, ge=1, lt=1 << 31)
    """Maximum number of points of one request, over all of its clouds."""
    max_request_clouds: int = Field(1 << 16, ge=1)
    """Maximum number of clouds of one request."""
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
    overload_retry_ms: int = Field(250, ge=0)
    """Milliseconds after which a refused caller may retry: about the time of a typical batch."""
    batch_points: int = Field(1 << 20, ge=1)
    """Number of points at which a batch is full. Larger batches use a GPU better; with smaller ones
    small requests wait less for large ones."""
    long_work_ms: float = Field(30.0, ge=0)
    """Milliseconds of predicted work above which a request is long. Long requests run at a lower
    priority, so that short ones overtake them; 0 turns this off."""
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

    memory_policy: Literal["on", "off"] = "on"
    """Whether cached memory is returned between requests. Turn it off only where nothing else uses
    the device."""
    memory_limit_mib: int | None = Field(None, ge=1)
    """MiB of a device that the server may use; work beyond it is split or refused. Default: the
    whole GPU, and no limit on a CPU. Set it where others share the GPU; the CUDA context takes
    about 500 MiB more."""
    memory_reserve_mib: int = Field(512, ge=0)
    """MiB of a GPU that predictions leave free, for libraries that allocate memory themselves.
    Raise it if GetMemory reports retries of the allocator."""
    memory_idle_s: float | None = Field(None, gt=0)
    """Seconds without work after which all cached memory is returned. Default: 2 on a CPU and 30 on
    a GPU. Raise it where the pauses between bursts are longer."""
