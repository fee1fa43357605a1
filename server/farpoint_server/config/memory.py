"""The settings of the memory manager; `Settings` has them beside its own."""

from typing import Literal

from pydantic import Field
from pydantic_settings import BaseSettings

from farpoint_server.memory.options import MIB, Options
from farpoint_server.memory.policy import Limits


class MemorySettings(BaseSettings):
    """See docs/memory.md for which to change when."""

    memory_policy: Literal["on", "off"] = Field(
        "on",
        description="Whether cached memory is handed back between requests. Turn it off only "
        "where the device has no other user and never will.",
    )
    memory_limit_mib: int = Field(
        0,
        ge=0,
        description="MiB that this process may hold of the device; work beyond is cut or refused. "
        "0 is the whole card, and on a CPU no limit. Set it where others share the card; the CUDA "
        "context takes about 500 MiB more.",
    )
    memory_reserve_mib: int = Field(
        512,
        ge=0,
        description="MiB of a card that predictions leave free, for libraries that allocate by "
        "themselves. Raise it if GetMemory counts retries of the allocator.",
    )
    memory_idle_s: float = Field(
        0,
        ge=0,
        description="Seconds without work after which all cached memory is handed back; 0 takes "
        "2 on a CPU and 30 on a GPU. Raise it where bursts come further apart than that.",
    )
    memory_interval_s: float = Field(
        0,
        ge=0,
        description="Least seconds between two trims; 0 takes 2 on a CPU and 10 on a GPU.",
    )
    memory_min_trim_mib: int = Field(
        0,
        ge=0,
        description="MiB that must come back for a trim to be worth it; 0 takes 8 on a CPU and 64 "
        "on a GPU.",
    )
    memory_hard_mib: int = Field(
        1024,
        ge=0,
        description="Free MiB of the device below which the cache is handed back even with "
        "requests waiting. Raise it to what neighbors ask for at once.",
    )
    memory_hard_share: float = Field(
        0.03,
        ge=0,
        lt=1,
        description="The same as a share of the device; the larger one counts, at most a tenth.",
    )
    memory_soft_mib: int = Field(
        1024,
        ge=0,
        description="Cached MiB above which the cache is handed back at the next moment without "
        "requests.",
    )
    memory_soft_share: float = Field(
        0.1, ge=0, le=1, description="The same as a share of the device; the largest counts."
    )
    memory_soft_demand: float = Field(
        2.0,
        ge=1,
        description="The same as a multiple of what recent batches used; the largest counts. "
        "Raise it for bursty load.",
    )
    memory_soft_s: float = Field(
        2.0, ge=0, description="Seconds for which so much must have been cached."
    )
    memory_fragmentation: float = Field(
        0.3,
        gt=0,
        le=1,
        description="Share of the reserved memory that may be cached in segments which live "
        "memory keeps; above it a card is trimmed.",
    )
    memory_expandable_segments: Literal["on", "off"] = Field(
        "off",
        description="Whether torch's segments grow page by page: less fragmentation where clouds "
        "differ much in size, slower trims.",
    )

    def memory_options(self) -> Options:
        """The same, as the memory manager takes them."""
        limits = Limits(
            hard_bytes=self.memory_hard_mib * MIB,
            hard_share=self.memory_hard_share,
            soft_bytes=self.memory_soft_mib * MIB,
            soft_share=self.memory_soft_share,
            soft_demand=self.memory_soft_demand,
            soft_s=self.memory_soft_s,
            fragmentation=self.memory_fragmentation,
            idle_s=self.memory_idle_s,
            interval_s=self.memory_interval_s,
            min_trim_bytes=self.memory_min_trim_mib * MIB,
        )
        return Options(
            limits=limits,
            limit_bytes=self.memory_limit_mib * MIB,
            reserve_bytes=self.memory_reserve_mib * MIB,
            enabled=self.memory_policy == "on",
        )
