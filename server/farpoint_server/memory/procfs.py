"""Linux's /proc and cgroup files: RSS of the process, RAM of the machine or container."""

import os
from pathlib import Path

from farpoint_server.memory.allocator import Room

_STATM = Path("/proc/self/statm")
_STATUS = Path("/proc/self/status")
_CLEAR_REFS = Path("/proc/self/clear_refs")
_RESET_PEAK = "5"
_MEMINFO = Path("/proc/meminfo")
_CGROUP = Path("/sys/fs/cgroup")


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


def room(meminfo: Path = _MEMINFO, cgroup: Path = _CGROUP) -> Room:
    """What can still be had of RAM, page cache that would make way included.

    The tighter of the machine and the cgroup (version 2) counts. Zeros, i.e. unknown, where the
    system is not Linux.
    """
    machine = _machine(meminfo)
    group = _group(cgroup)
    if group is None or group.total >= machine.total:
        return machine
    return Room(min(machine.free, group.free), group.total)


def _status(name: str) -> int:
    """Bytes of a line of /proc/self/status."""
    try:
        lines = _STATUS.read_text().splitlines()
    except OSError:
        return 0
    found = (line.split()[1] for line in lines if line.startswith(f"{name}:"))
    return int(next(found, 0)) * 1024


def _machine(path: Path) -> Room:
    values = _table(path)
    return Room(values.get("MemAvailable:", 0) * 1024, values.get("MemTotal:", 0) * 1024)


def _group(folder: Path) -> Room | None:
    try:
        limit = (folder / "memory.max").read_text().strip()
        used = int((folder / "memory.current").read_text())
    except (OSError, ValueError):
        return None
    if not limit.isdecimal():  # "max": no limit
        return None
    reclaimable = _table(folder / "memory.stat").get("inactive_file", 0)
    return Room(max(0, int(limit) - used + reclaimable), int(limit))


def _table(path: Path) -> dict[str, int]:
    """The numbers of a file with a name and a number in each line."""
    try:
        rows = (line.split() for line in path.read_text().splitlines())
        return {row[0]: int(row[1]) for row in rows if len(row) > 1 and row[1].isdecimal()}
    except OSError:
        return {}
