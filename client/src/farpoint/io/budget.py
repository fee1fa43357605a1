"""Memory budget of a decoder, checked before each allocation."""

import sys
from pathlib import Path

# Left to the rest of the process and of the machine.
SHARE = 0.9


def available_bytes() -> int | None:
    """Bytes that the machine, the control group and the process limit leave; None if unknown."""
    found = [n for n in (_machine(), _control_group(), _process_limit()) if n is not None]
    return min(found) if found else None


def check_budget(needed: int, what: str) -> None:
    """Raises MemoryError if more is needed than is available."""
    available = available_bytes()
    if available is not None and needed > SHARE * available:
        raise MemoryError(
            f"{what} need {needed / 1e9:.1f} GB, {available / 1e9:.1f} GB are available"
        )


def _machine() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    found = next((line for line in lines if line.startswith("MemAvailable:")), None)
    return int(found.split()[1]) << 10 if found else None


def _control_group() -> int | None:
    folder = Path("/sys/fs/cgroup")
    try:
        limit = (folder / "memory.max").read_text().strip()
        used = int((folder / "memory.current").read_text())
    except (OSError, ValueError):
        return None
    return max(int(limit) - used, 0) if limit.isdigit() else None


def _process_limit() -> int | None:
    if sys.platform == "win32":
        return None
    import resource

    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return None if limit == resource.RLIM_INFINITY else max(limit - _address_space(), 0)


def _address_space() -> int:
    try:
        return int(Path("/proc/self/statm").read_text().split()[0]) * 4096
    except OSError:
        return 0


def limit_process(extra: int) -> None:
    """Limits the address space of this process to its present size and `extra` bytes."""
    if sys.platform == "win32" or not extra:
        return
    import resource

    wanted = _address_space() + extra
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_AS, (wanted, hard))
