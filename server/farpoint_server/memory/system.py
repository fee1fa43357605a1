"""RAM of the machine, or of the control group that this process lives in."""

from pathlib import Path

from farpoint_server.memory.allocator import Room

_MEMINFO = Path("/proc/meminfo")
_CGROUP = Path("/sys/fs/cgroup")


def room(meminfo: Path = _MEMINFO, cgroup: Path = _CGROUP) -> Room:
    """What can still be had of RAM, page cache that would make way included.

    The tighter of the machine and the control group (version 2) counts. Zeros, i.e. unknown,
    where the system is not Linux.
    """
    machine = _machine(meminfo)
    group = _group(cgroup)
    if group is None or group.total >= machine.total:
        return machine
    return Room(min(machine.free, group.free), group.total)


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
