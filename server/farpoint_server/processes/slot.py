"""The place of a process in its server, passed on by an environment variable."""

import ctypes
import json
import os
import signal
from collections.abc import MutableMapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from farpoint_server.config.network import split_host_port
from farpoint_server.config.settings import Settings

# Not FARPOINT_..., since it is not a setting.
VARIABLE = "_FARPOINT_PROCESS"
# <linux/prctl.h>
PR_SET_PDEATHSIG = 1
T = TypeVar("T")


@dataclass(frozen=True)
class ProcessSlot:
    """The place of a process in its server: one of `count` front ends, or the engine after them."""

    index: int = 0
    count: int = 1
    folder: Path = Path()
    """Of the engine's socket."""
    link: int = -1
    """File descriptor of the socket to the supervisor."""
    parent: int = 0
    """Process ID of the supervisor."""
    counts: int = -1
    """File descriptor of the counts of all front ends."""
    models: Sequence[str] | None = None
    """Of an engine that replaces another one: the models that it had loaded."""

    @property
    def is_alone(self) -> bool:
        """Whether it is the only process."""
        return self.count == 1

    @property
    def is_engine(self) -> bool:
        """Whether it owns the devices, and no port."""
        return self.index == self.count

    @property
    def name(self) -> int | str:
        """In the log and in metrics."""
        return "engine" if self.is_engine else self.index

    @property
    def engine(self) -> Path:
        """The engine's socket."""
        return self.folder / "engine"

    def own(self, items: Sequence[T]) -> Sequence[T]:
        """The ports of a front end; they are assigned in turn.

        With more front ends than ports several share one.
        """
        return items[self.index :: self.count] or [items[self.index % len(items)]] if items else []


def share(settings: Settings, slot: ProcessSlot) -> Settings:
    """Settings of one of several processes: ports of gRPC are assigned in turn.

    Messages in reception are, too. Limits of connections hold for each front end, since the kernel
    distributes the connections of a shared port at random.
    """
    if slot.is_alone or slot.is_engine:
        return settings
    own = slot.own([*dict.fromkeys(map(_port, settings.listen))])
    foreign = {address for address in settings.listen if _port(address) not in own}
    return settings.model_copy(
        update={
            "listen": tuple(a for a in settings.listen if a not in foreign),
            "admin_listen": tuple(a for a in settings.admin_listen if a not in foreign),
            "processes": slot.count,
            "receive_turns": max(settings.receive_turns // slot.count, 1),
        }
    )


def _port(address: str) -> int:
    return split_host_port(address)[1]


def to_environment(slot: ProcessSlot, settings: Settings) -> dict[str, str]:
    """The environment variable that makes a program a process of a server."""
    place = {**asdict(slot), "folder": str(slot.folder), "parent": os.getpid()}
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
    place = passed["slot"]
    settings = Settings(**passed["settings"], config=None)
    return ProcessSlot(**{**place, "folder": Path(place["folder"])}), settings


def end_with_parent(parent: int) -> None:
    """Makes the kernel kill this process when its parent, of this process ID, ends."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it has ended already
        os._exit(1)
