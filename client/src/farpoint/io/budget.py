"""Memory that a reader needs, checked before it is allocated."""

from pathlib import Path

# Left to the rest of the process and of the machine.
SHARE = 0.9


def check_budget(needed: int, what: str) -> None:
    """Raises MemoryError if more is needed than the machine and the control group leave."""
    found = [n for n in (_machine(), _control_group()) if n is not None]
    if found and needed > SHARE * min(found):
        raise MemoryError(
            f"{what} need {needed / 1e9:.1f} GB, {min(found) / 1e9:.1f} GB are available"
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
