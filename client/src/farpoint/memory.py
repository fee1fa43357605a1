"""Results of GetMemory and TrimMemory as frozen dataclasses."""

from collections.abc import Mapping
from dataclasses import dataclass

from farpoint.results import member_name
from farpoint.v1 import admin_pb2 as pb


@dataclass(frozen=True)
class TrimTotal:
    """All trims of one reason since the server started."""

    count: int
    total_ms: float
    longest_ms: float
    returned_bytes: int


@dataclass(frozen=True)
class DeviceMemory:
    """Memory of one device; counters start at 0 with the server."""

    device: str
    """Name in torch: "cpu", "cuda:0"."""
    age_ms: float
    """Age of these values, which are read between two batches."""
    allocated_bytes: int
    """Bytes in live tensors; on a CPU, in live blocks of the heap."""
    reserved_bytes: int
    """Bytes in live and cached blocks."""
    idle_bytes: int
    """Cached bytes."""
    releasable_bytes: int
    """Bytes that a trim would give back."""
    fragmentation: float
    """The share of the reserved bytes that is cached and cannot be released."""
    free_bytes: int
    """Free bytes of the whole device, over all of its users."""
    total_bytes: int
    limit_bytes: int
    """Bytes of the device that the server may use; 0 is no limit."""
    host_cache_bytes: int
    """Pinned host memory, live and cached."""
    host_releasable_bytes: int
    trims: Mapping[str, TrimTotal]
    """Trims by reason, for example "idle"."""
    retry_count: int
    """Times that the allocator flushed its cache in the middle of a batch."""
    out_of_memory_count: int
    refused_count: int
    """Requests that were refused because they would not fit."""
    healthy: bool


@dataclass(frozen=True)
class Memory:
    """Memory of a server."""

    devices: tuple[DeviceMemory, ...]
    resident_bytes: int
    """Resident memory of the server's process (RSS), the engine's where there are several."""
    allocator_settings: str
    """The value of PYTORCH_ALLOC_CONF; empty on a CPU."""


@dataclass(frozen=True)
class Trim:
    """A requested trim of one device."""

    device: str
    duration_ms: float
    returned_bytes: int


def read_memory(response: pb.GetMemoryResponse) -> Memory:
    """Converts a GetMemoryResponse."""
    return Memory(
        devices=tuple(_device(device) for device in response.devices),
        resident_bytes=response.resident_bytes,
        allocator_settings=response.allocator_settings,
    )


def read_trims(response: pb.TrimMemoryResponse) -> list[Trim]:
    """Converts a TrimMemoryResponse."""
    return [Trim(t.device, t.duration_ms, t.returned_bytes) for t in response.trims]


def _device(message: pb.DeviceMemory) -> DeviceMemory:
    # All fields but one have the same name and meaning as on the wire.
    values = {field.name: getattr(message, field.name) for field in message.DESCRIPTOR.fields}
    values["trims"] = {
        member_name(pb.TrimReason, total.reason): _total(total) for total in message.trims
    }
    return DeviceMemory(**{name: values[name] for name in DeviceMemory.__dataclass_fields__})


def _total(message: pb.TrimTotal) -> TrimTotal:
    return TrimTotal(
        message.trim_count, message.total_ms, message.longest_ms, message.returned_bytes
    )
