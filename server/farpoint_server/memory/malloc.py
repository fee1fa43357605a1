"""What the memory manager asks of the malloc that this process runs with."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class HeapUse:
    """Bytes of a heap at one moment."""

    used: int
    """In live blocks, those with a mapping of their own included."""
    free: int
    """In free blocks, resident or not."""


class Malloc(Protocol):
    """One implementation of malloc. Any thread may call it; other threads go on meanwhile."""

    @property
    def name(self) -> str:
        """With its version."""
        ...

    @property
    def tells_live(self) -> bool:
        """Whether `used` follows every malloc and free, not only trims."""
        ...

    def settle(self, environ: Mapping[str, str]) -> dict[str, int]:
        """Sets options, before threads are started; returns what was set."""
        ...

    def use(self) -> HeapUse:
        """Bytes now."""
        ...

    def trim(self) -> None:
        """Gives free pages back to the system, all that it can reach."""
        ...


class UnknownMalloc:
    """One that cannot be asked: it is left alone, and its numbers are zeros."""

    name = "unknown"
    tells_live = False

    def settle(self, environ: Mapping[str, str]) -> dict[str, int]:  # noqa: ARG002
        return {}

    def use(self) -> HeapUse:
        return HeapUse(0, 0)

    def trim(self) -> None:
        pass
