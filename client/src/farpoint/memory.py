"""Results of GetMemory and TrimMemory as frozen dataclasses: bytes of each device, and trims."""

from collections.abc import Mapping
from dataclasses import dataclass

from farpoint.results import member_name
from farpoint.v1 import admin_pb2 as pb


@dataclass(frozen=True)
class TrimTotal:
    """All trims of one reason since the server began."""

    count: int
    total_ms: float
    longest_ms: float
    returned_bytes: int


@dataclass(frozen=True)
class DeviceMemory:
    """The memory of one device; counters begin at 0 with the server."""

    device: str
    """As torch names it: "cpu", "cuda:0"."""
    age_ms: float
    """Since these values were read, between two batches."""
    allocated_bytes: int
    """In live tensors; on a CPU, in live blocks of the heap."""
    reserved_bytes: int
    """Live and cached."""
    idle_bytes: int
    """Cached."""
    releasable_bytes: int
    """Bytes that a trim would give back."""
    fragmentation: float
    """The share of the reserved bytes that is cached and cannot be released."""
    free_bytes: int
    """Of the whole device, over all of its users."""
    total_bytes: int
    limit_bytes: int
    """Bytes of the device that the server may hold; 0 is no limit."""
    host_cache_bytes: int
    """Pinned host memory, live and cached."""
    host_releasable_bytes: int
    trims: Mapping[str, TrimTotal]
    """By reason, for example "idle"."""
    retry_count: int
    """Times that the allocator flushed its cache in the middle of a batch."""
    out_of_memory_count: int
    refused_count: int
    """Requests that were refused because their bytes would not fit."""
    healthy: bool
    snapshot: bytes
    """torch's, pickled; empty unless asked for, and on a CPU."""
    process: int = 0
    """Index of the server's process that holds it; 0 where there is one."""


@dataclass(frozen=True)
class Memory:
    """The memory of a server."""

    devices: tuple[DeviceMemory, ...]
    resident_bytes: int
    """Of the server's processes (RSS)."""
    allocator_settings: str
    """The value of PYTORCH_ALLOC_CONF; empty on a CPU."""


@dataclass(frozen=True)
class Trim:
    """A trim that was asked for."""

    device: str
    duration_ms: float
    returned_bytes: int
    process: int = 0
    """Index of the server's process; 0 where there is one."""


def read_memory(response: pb.GetMemoryResponse) -> Memory:
    """The answer of GetMemory."""
    return Memory(
        devices=tuple(_device(device) for device in response.devices),
        resident_bytes=response.resident_bytes,
        allocator_settings=response.allocator_settings,
    )


def read_trims(response: pb.TrimMemoryResponse) -> list[Trim]:
    """The answer of TrimMemory."""
    return [Trim(t.device, t.duration_ms, t.returned_bytes, t.process) for t in response.trims]


def _device(message: pb.DeviceMemory) -> DeviceMemory:
    # Every field but one has the same name and meaning here as on the wire.
    values = {field.name: getattr(message, field.name) for field in message.DESCRIPTOR.fields}
    values["trims"] = {
        member_name(pb.TrimReason, total.reason): _total(total) for total in message.trims
    }
    return DeviceMemory(**{name: values[name] for name in DeviceMemory.__dataclass_fields__})


def _total(message: pb.TrimTotal) -> TrimTotal:
    return TrimTotal(
        message.trim_count, message.total_ms, message.longest_ms, message.returned_bytes
    )
