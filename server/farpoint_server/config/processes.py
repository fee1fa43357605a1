"""Setting of the number of server processes, as a field of `Settings`; see docs/scaling.md."""

import os
from typing import Annotated, Literal

from pydantic import Field
from pydantic_settings import BaseSettings

# An event loop keeps one core busy, its kernels and the decoding of large messages another.
CORES_EACH = 2
# Of `auto`: beyond them the network or the device is the bound as a rule, and each takes memory.
MOST = 16


class ProcessSettings(BaseSettings):
    """How many processes there are."""

    processes: Annotated[int, Field(ge=1, le=256)] | Literal["auto"] = Field(
        1,
        description="Processes that serve the same addresses, HOST:PORT alone, for more small "
        "requests than one event loop can take; auto is one for two cores, 16 at most. Limits of "
        "points, bytes and memory, threads and GPUs are shared out among them. A connection stays "
        "with one of them. Linux only.",
    )

    @property
    def process_count(self) -> int:
        """What the setting means on this machine."""
        if self.processes != "auto":
            return self.processes
        affinity = getattr(os, "sched_getaffinity", None)
        cores = len(affinity(0)) if affinity else os.cpu_count() or 1
        return min(max(cores // CORES_EACH, 1), MOST)
