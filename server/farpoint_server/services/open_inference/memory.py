"""The RPCs of Open Inference on shared memory: regions are registered, listed and forgotten."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from farpoint_server.codec.open_inference.posix_memory import PosixMemory
from farpoint_server.codec.open_inference.v2 import open_inference_pb2 as pb
from farpoint_server.errors import NotFoundError, PermissionDeniedError, UnsupportedError, quoted
from farpoint_server.services.open_inference.infer_handler import InferHandler
from farpoint_server.transport.handlers import Context

OFF = "system shared memory is off on this server; --system-shared-memory-prefix allows it"


@dataclass(frozen=True)
class SharedMemoryMethods:
    """Each caller's own regions are those that its requests of `handler` may refer to."""

    handler: InferHandler

    @property
    def memory(self) -> PosixMemory:
        """All regions."""
        return self.handler.memory

    async def status(
        self, request: pb.SystemSharedMemoryStatusRequest, context: Context
    ) -> pb.SystemSharedMemoryStatusResponse:
        """SystemSharedMemoryStatus."""
        response = pb.SystemSharedMemoryStatusResponse()
        for region in self.memory.status(self._owner(context), request.name):
            status = response.regions[region.name]
            status.name, status.key = region.name, f"/{region.key}"
            status.offset, status.byte_size = region.offset, region.size
        return response

    async def register(
        self, request: pb.SystemSharedMemoryRegisterRequest, context: Context
    ) -> pb.SystemSharedMemoryRegisterResponse:
        """SystemSharedMemoryRegister."""
        owner = self._owner(context)
        self.memory.register(owner, request.name, request.key, request.offset, request.byte_size)
        return pb.SystemSharedMemoryRegisterResponse()

    async def unregister(
        self, request: pb.SystemSharedMemoryUnregisterRequest, context: Context
    ) -> pb.SystemSharedMemoryUnregisterResponse:
        """SystemSharedMemoryUnregister."""
        self.memory.unregister(self._owner(context), request.name)
        return pb.SystemSharedMemoryUnregisterResponse()

    async def cuda_status(
        self, request: pb.CudaSharedMemoryStatusRequest, _: Context
    ) -> pb.CudaSharedMemoryStatusResponse:
        """CudaSharedMemoryStatus: there are no such regions."""
        if request.name:
            got = quoted(request.name)
            raise NotFoundError(f"name: expected a region that is registered, got {got}")
        return pb.CudaSharedMemoryStatusResponse()

    async def cuda_unregister(
        self, _: pb.CudaSharedMemoryUnregisterRequest, __: Context
    ) -> pb.CudaSharedMemoryUnregisterResponse:
        """CudaSharedMemoryUnregister: clients ask for it before they register system memory."""
        return pb.CudaSharedMemoryUnregisterResponse()

    def methods(self) -> dict[str, tuple[type[Any], Callable[[Any, Context], Awaitable[Any]]]]:
        """Request and method of each RPC."""
        return {
            "SystemSharedMemoryStatus": (pb.SystemSharedMemoryStatusRequest, self.status),
            "SystemSharedMemoryRegister": (pb.SystemSharedMemoryRegisterRequest, self.register),
            "SystemSharedMemoryUnregister": (
                pb.SystemSharedMemoryUnregisterRequest,
                self.unregister,
            ),
            "CudaSharedMemoryStatus": (pb.CudaSharedMemoryStatusRequest, self.cuda_status),
            "CudaSharedMemoryUnregister": (
                pb.CudaSharedMemoryUnregisterRequest,
                self.cuda_unregister,
            ),
        }

    def _owner(self, context: Context) -> str:
        if not self.memory.is_enabled:
            raise UnsupportedError(OFF)
        owner = self.handler.memory_owner(context.peer())
        if owner is None:
            raise PermissionDeniedError("shared memory is for callers on the server's machine")
        return owner
