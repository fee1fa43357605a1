"""`farpoint memory`: a server's memory as tables or JSON, once or live; trims and snapshots."""

import contextlib
import json
import sys
import time
from dataclasses import asdict
from pathlib import Path

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table

from farpoint._client import Client
from farpoint.errors import CloudFileError, FailedPreconditionError
from farpoint.memory import DeviceMemory, Memory, Trim

INTERVAL_S = 0.5
MIB = 1 << 20


def show(memory: Memory, *, as_json: bool) -> None:
    """Prints the memory once."""
    if as_json:
        print(_as_json(memory), flush=True)
    else:
        Console().print(_as_tables(memory))


def watch(client: Client, *, as_json: bool) -> None:
    """Shows the memory until Ctrl-C: in place on a terminal, else one line after the other."""
    with contextlib.suppress(KeyboardInterrupt):
        if as_json or not sys.stdout.isatty():
            while True:
                print(_as_json(client.memory()), flush=True)
                time.sleep(INTERVAL_S)
        with Live(_as_tables(client.memory()), auto_refresh=False) as live:
            while True:
                live.update(_as_tables(client.memory()), refresh=True)
                time.sleep(INTERVAL_S)


def trim(client: Client) -> None:
    """Has the server give cached memory back, and prints how much."""
    for done in client.trim_memory():
        print(
            f"{_name(done)}: {_mib(done.returned_bytes)} MiB returned in {done.duration_ms:.1f} ms"
        )


def save_snapshot(client: Client, path: Path) -> None:
    """Writes torch's snapshot; with several devices one file for each, named after it."""
    devices = [device for device in client.memory(snapshots=True).devices if device.snapshot]
    if not devices:
        raise FailedPreconditionError("torch keeps snapshots of GPUs only; here is none")
    for device in devices:
        process = f"-{device.process}" if device.process else ""
        name = f"{path.stem}-{device.device.replace(':', '')}{process}{path.suffix}"
        target = path if len(devices) == 1 else path.with_name(name)
        try:
            target.write_bytes(device.snapshot)
        except OSError as error:
            raise CloudFileError(error.strerror or str(error), path=target) from error
        print(f"{device.device} -> {target}: {len(device.snapshot)} bytes")


def _name(of: DeviceMemory | Trim) -> str:
    """The device, and the process where it is not the first."""
    return f"{of.device} of process {of.process}" if of.process else of.device


def _as_json(memory: Memory) -> str:
    values = asdict(memory)
    for device in values["devices"]:
        del device["snapshot"]
    return json.dumps(values)


def _as_tables(memory: Memory) -> Group:
    devices = Table("device", "", *map(_name, memory.devices))
    for name, values in _rows(memory.devices).items():
        unit = "MiB" if name.endswith("bytes") else ""
        devices.add_row(name.removesuffix("_bytes").replace("_", " "), unit, *values)
    devices.add_row("process resident", "MiB", _mib(memory.resident_bytes))
    return Group(devices, _trims(memory))


def _rows(devices: tuple[DeviceMemory, ...]) -> dict[str, list[str]]:
    hidden = ("device", "process", "age_ms", "trims", "snapshot")
    names = [name for name in DeviceMemory.__dataclass_fields__ if name not in hidden]
    return {name: [_text(name, getattr(device, name)) for device in devices] for name in names}


def _text(name: str, value: object) -> str:
    if name == "limit_bytes" and not value:
        return "none"
    if name.endswith("bytes") and isinstance(value, int):
        return _mib(value)
    return f"{value:.2f}" if isinstance(value, float) else str(value)


def _trims(memory: Memory) -> Table:
    table = Table("device", "trims", "count", "total ms", "longest ms", "returned MiB")
    for device in memory.devices:
        for reason, total in sorted(device.trims.items()):
            table.add_row(
                _name(device),
                reason,
                str(total.count),
                f"{total.total_ms:.1f}",
                f"{total.longest_ms:.1f}",
                _mib(total.returned_bytes),
            )
    return table


def _mib(size: int) -> str:
    return f"{size / MIB:,.1f}"
