"""`farpoint memory`: a server's memory as text or JSON, and trims."""

import json
from dataclasses import asdict

from farpoint._client import Client
from farpoint.memory import DeviceMemory, Memory

MIB = 1 << 20


def show(memory: Memory, *, as_json: bool) -> None:
    """Prints the memory."""
    print(_as_json(memory) if as_json else _as_text(memory))


def trim(client: Client, *, as_json: bool) -> None:
    """Makes the server return cached memory and prints how much."""
    for done in client.trim_memory():
        text = f"{_mib(done.returned_bytes)} MiB returned in {done.duration_ms:.1f} ms"
        print(json.dumps(asdict(done)) if as_json else f"{done.device}: {text}")


def _as_json(memory: Memory) -> str:
    values = asdict(memory)
    for device in values["devices"]:
        del device["snapshot"]
    return json.dumps(values)


def _as_text(memory: Memory) -> str:
    """A line for each value, with a column for each device; then a line for each kind of trim."""
    rows = [("device", *(device.device for device in memory.devices))]
    hidden = ("device", "age_ms", "trims", "snapshot")
    for name in DeviceMemory.__dataclass_fields__:
        if name not in hidden:
            title = f"{name.removesuffix('_bytes').replace('_', ' ')}"
            title += ", MiB" * name.endswith("_bytes")
            rows.append((title, *(_value(name, getattr(d, name)) for d in memory.devices)))
    rows.append(("process resident, MiB", _mib(memory.resident_bytes)))
    lines = [f"{title:26}" + "".join(f"{value:>20}" for value in row) for title, *row in rows]
    for device in memory.devices:
        for reason, total in sorted(device.trims.items()):
            lines.append(
                f"{device.device}: {total.count} trims, {reason}, {total.total_ms:.1f} ms in all, "
                f"{total.longest_ms:.1f} ms the longest, {_mib(total.returned_bytes)} MiB returned"
            )
    return "\n".join(lines)


def _value(name: str, value: object) -> str:
    if name == "limit_bytes" and not value:
        return "none"
    if name.endswith("bytes") and isinstance(value, int):
        return _mib(value)
    return f"{value:.2f}" if isinstance(value, float) else str(value)


def _mib(size: int) -> str:
    return f"{size / MIB:,.1f}"
