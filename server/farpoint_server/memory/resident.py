"""Resident memory of this process as Linux counts it."""

import os
from pathlib import Path

_STATM = Path("/proc/self/statm")
_STATUS = Path("/proc/self/status")
_CLEAR_REFS = Path("/proc/self/clear_refs")
_RESET_PEAK = "5"


def anonymous_bytes() -> int:
    """Resident bytes that no file backs: heap, stacks, arenas; 0 where /proc is missing."""
    try:
        fields = _STATM.read_text().split()
    except OSError:
        return 0
    resident, shared = int(fields[1]), int(fields[2])
    return (resident - shared) * os.sysconf("SC_PAGE_SIZE")


def resident_bytes() -> int:
    """All resident bytes (RSS); 0 where /proc is missing."""
    return _status("VmRSS")


def peak_bytes() -> int:
    """The largest RSS since `reset_peak`, or since the process began."""
    return _status("VmHWM")


def reset_peak() -> bool:
    """Begins a new peak; False where the system does not let us."""
    try:
        _CLEAR_REFS.write_text(_RESET_PEAK)
    except OSError:
        return False
    return True


def _status(name: str) -> int:
    try:
        lines = _STATUS.read_text().splitlines()
    except OSError:
        return 0
    found = (line.split()[1] for line in lines if line.startswith(f"{name}:"))
    return int(next(found, 0)) * 1024
