"""Options of the memory managers of a server; reading them loads no torch."""

from dataclasses import dataclass

MIB = 1 << 20


@dataclass(frozen=True)
class Options:
    """Of one server.

    Args:
        idle_s: Seconds without work after which all cached memory goes back; None: by the device.
        limit_bytes: Most bytes that the process may hold of a device; None: no limit of its own.
        reserve_bytes: Bytes of a GPU that predictions leave free.
        enabled: Whether the policy trims.
    """

    idle_s: float | None = None
    limit_bytes: int | None = None
    reserve_bytes: int = 512 * MIB
    enabled: bool = True
