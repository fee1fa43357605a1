"""gRPC servicer of farpoint.v1.AdminService: memory snapshots, trims, and loading of models."""

import time
from dataclasses import dataclass
from pathlib import Path

from farpoint.v1 import admin_pb2
from farpoint_server.compute.compute import Compute
from farpoint_server.compute.memory.snapshot import MemorySnapshot, Reason, Trims
from farpoint_server.models.registry import Registry
from farpoint_server.services.sampling import describe_model
from farpoint_server.transport.grpc.handlers import Methods, UnaryFunction, unary_methods

DESCRIPTOR = admin_pb2.DESCRIPTOR.services_by_name["AdminService"]


@dataclass(frozen=True)
class AdminServicer:
    """Serves memory snapshots, trims, and loading of models."""

    compute: Compute
    models: Registry

    def methods(self) -> Methods:
        """Handlers of all methods."""
        answers: dict[str, UnaryFunction] = {
            "GetMemory": self._get_memory,
            "TrimMemory": self._trim_memory,
            "LoadModel": self._load_model,
            "UnloadModel": self._unload_model,
        }
        return unary_methods(DESCRIPTOR, answers)

    async def _get_memory(self, _: admin_pb2.GetMemoryRequest) -> admin_pb2.GetMemoryResponse:
        memories = self.compute.memory()
        return admin_pb2.GetMemoryResponse(
            devices=[_device_memory(memory) for memory in memories],
            resident_bytes=max(memory.resident for memory in memories),
            allocator_settings=self.compute.allocator_settings,
        )

    async def _trim_memory(
        self, request: admin_pb2.TrimMemoryRequest
    ) -> admin_pb2.TrimMemoryResponse:
        trims = await self.compute.trim_memory(force=request.force)
        return admin_pb2.TrimMemoryResponse(
            trims=[
                admin_pb2.TrimResult(
                    device=device, duration_ms=seconds * 1e3, returned_bytes=returned
                )
                for device, seconds, returned in trims
            ]
        )

    async def _load_model(self, request: admin_pb2.LoadModelRequest) -> admin_pb2.LoadModelResponse:
        path = Path(request.path) if request.path else None
        model = await self.models.load(request.name, path)
        return admin_pb2.LoadModelResponse(model=describe_model(model))

    async def _unload_model(
        self, request: admin_pb2.UnloadModelRequest
    ) -> admin_pb2.UnloadModelResponse:
        await self.models.unload(request.name)
        return admin_pb2.UnloadModelResponse()


def _device_memory(memory: MemorySnapshot) -> admin_pb2.DeviceMemory:
    """A snapshot as its message."""
    stats = memory.stats
    return admin_pb2.DeviceMemory(
        device=memory.device,
        age_ms=(time.monotonic() - memory.taken) * 1e3,
        allocated_bytes=stats.allocated,
        reserved_bytes=stats.reserved,
        idle_bytes=stats.idle,
        releasable_bytes=stats.releasable,
        fragmentation=stats.fragmentation,
        free_bytes=memory.headroom.free,
        total_bytes=memory.headroom.total,
        limit_bytes=memory.limit or 0,
        host_cache_bytes=stats.host_reserved,
        host_releasable_bytes=stats.host_releasable,
        trims=[_trim_total(reason, trims) for reason, trims in memory.trims.items()],
        retry_count=stats.retries,
        out_of_memory_count=memory.oom_count,
        refused_count=memory.refused,
        healthy=memory.healthy,
    )


def _trim_total(reason: Reason, trims: Trims) -> admin_pb2.TrimTotal:
    return admin_pb2.TrimTotal(
        reason=admin_pb2.TrimReason.Value(f"TRIM_REASON_{reason.name}"),
        trim_count=trims.count,
        total_ms=trims.seconds * 1e3,
        longest_ms=trims.longest_s * 1e3,
        returned_bytes=trims.returned_bytes,
    )
