"""Settings of the memory manager."""

from typing import Literal

from pydantic import Field
from pydantic_settings import BaseSettings

from farpoint_server.memory.policy import MIB, Options


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
