"""The slot of a process among those of one server, passed on by an environment variable."""

import ctypes
import json
import os
import signal
from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from farpoint_server.config.network import split_host_port
from farpoint_server.config.settings import Settings

# Not FARPOINT_..., since it is not a setting.
VARIABLE = "_FARPOINT_PROCESS"
# <linux/prctl.h>
PR_SET_PDEATHSIG = 1
# Settings that bound all processes together, each with the one that its part must still allow.
DIVIDED = {
    "max_points_in_flight": "max_request_points",
    "max_bytes_in_flight": "max_message_bytes",
    "receive_turns": None,
}
T = TypeVar("T")


@dataclass(frozen=True)
class ProcessSlot:
    """The index of a process and the number of processes of its server."""

    index: int = 0
    count: int = 1
    folder: Path = Path()
    """Folder of the sockets by which processes call each other."""
    link: int = -1
    """File descriptor of the socket to the supervisor."""
    parent: int = 0
    """Process ID of the supervisor."""

    @property
    def is_alone(self) -> bool:
        """Whether it is the only process."""
        return self.count == 1

    def peer_address(self, index: int) -> str:
        """Address at which this process answers the others."""
        return f"unix:{self.folder / str(index)}"

    @property
    def others(self) -> Sequence[int]:
        """Indices of the other processes."""
        return [index for index in range(self.count) if index != self.index]

    def own(self, items: Sequence[T], index: int | None = None) -> Sequence[T]:
        """The GPUs or ports of a process, this one by default; they are assigned in turn.

        With more processes than items several share one.
        """
        index = self.index if index is None else index
        return items[index :: self.count] or [items[index % len(items)]] if items else []

    def sharers(self, gpu: T, gpus: Sequence[T]) -> int:
        """Processes that use a GPU."""
        return sum(gpu in self.own(gpus, index) for index in range(self.count))


def share(settings: Settings, slot: ProcessSlot) -> Settings:
    """Settings of one of several processes.

    Those of DIVIDED are shared out; but one request of the largest size stays possible. Memory and
    threads of devices are divided in `Compute`. Limits of calls and connections hold for each
    process, since the kernel distributes the connections of a shared port at random. Ports of gRPC
    are assigned in turn.
    """
    count = slot.count
    if count == 1:
        return settings
    own = slot.own([*dict.fromkeys(map(_port, settings.listen))])
    foreign = {address for address in settings.listen if _port(address) not in own}
    divided = {
        "listen": tuple(a for a in settings.listen if a not in foreign),
        "admin_listen": tuple(a for a in settings.admin_listen if a not in foreign),
        "processes": count,
        **{
            name: max(getattr(settings, name) // count, getattr(settings, least) if least else 1)
            for name, least in DIVIDED.items()
        },
    }
    return settings.model_copy(update=divided)


def _port(address: str) -> int:
    return split_host_port(address)[1]


def to_environment(slot: ProcessSlot, settings: Settings) -> dict[str, str]:
    """The environment variable that makes a program a process of a server."""
    place = (slot.index, slot.count, str(slot.folder), slot.link, os.getpid())
    passed = {"slot": place, "settings": settings.model_dump(mode="json", exclude={"config"})}
    return {VARIABLE: json.dumps(passed)}


def from_environment(
    environment: MutableMapping[str, str] = os.environ,
) -> tuple[ProcessSlot, Settings] | None:
    """The slot and settings from the supervisor; None without one.

    The variable is removed, so that child processes of this one do not inherit it.
    """
    text = environment.pop(VARIABLE, None)
    if text is None:
        return None
    passed: dict[str, Any] = json.loads(text)
    index, count, folder, link, parent = passed["slot"]
    settings = Settings(**passed["settings"], config=None)
    return ProcessSlot(index, count, Path(folder), link, parent), settings


def end_with_parent(parent: int) -> None:
    """Makes the kernel kill this process when its parent, of this process ID, ends."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it has ended already
        os._exit(1)
