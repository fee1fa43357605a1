"""The supervisor: starts the processes of a server, replaces those that end, and ends with them."""

import asyncio
import signal
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import structlog

from farpoint_server.config.settings import Settings
from farpoint_server.processes.child import PATIENCE_S, Child, Limits, drain_s, on_end_signals
from farpoint_server.processes.ports import Ports
from farpoint_server.processes.slot import ProcessSlot, share
from farpoint_server.transport.counts import Counts

# A process that lived for LIVED_S is replaced at once; after shorter lives the pause doubles.
LIVED_S, MAX_PAUSE_S = 60.0, 30.0
# Replacements in a row that end before they serve, after which the server ends.
MAX_FAILED_STARTS = 5
CANNOT_START, DEVICE_FAILED = 2, 3
log = structlog.get_logger("farpoint.supervisor")


class Supervisor:
    """Keeps the front ends and the engine running until a signal.

    The engine outlives the front ends, whose calls it answers while they drain.

    Args:
        ports: With the settings of the server.
        folder: Private, for the sockets between processes.
    """

    def __init__(
        self,
        ports: Ports,
        folder: Path,
        limits: Limits = Limits(),  # noqa: B008
    ) -> None:
        self._settings = ports.settings
        self._limits = limits
        self._count = count = ports.settings.process_count
        self._counts = Counts.create(count)
        slot = ProcessSlot(0, count, folder, counts=self._counts.descriptor)
        self._children = [Child(replace(slot, index=at), limits) for at in range(count + 1)]
        self._may_begin, self._stopping = asyncio.Event(), asyncio.Event()

    async def run(self) -> int:
        """Serves until a signal, which it forwards to the front ends; returns the exit status.

        Returns:
            0 if each process drained, 1 if one did not; or the status of a process that could not
            start.
        """
        on_end_signals(self._stop)
        keeping = [asyncio.create_task(self._keep(at)) for at in range(self._count + 1)]
        beginning = asyncio.create_task(self._begin())
        stopped = asyncio.create_task(self._stopping.wait())
        await asyncio.wait([stopped, *keeping], return_when=asyncio.FIRST_COMPLETED)
        if not self._stopping.is_set():  # a bug ended one of them, and is raised below
            self._stop(signal.SIGTERM)
        beginning.cancel()
        *front_ends, engine = keeping
        _, late = await asyncio.wait(front_ends, timeout=drain_s(self._settings))
        self._children[-1].signal(signal.SIGTERM)
        if not late:
            _, late = await asyncio.wait([engine], timeout=PATIENCE_S)
        if late:
            for child in self._children:
                child.signal(signal.SIGKILL)
        status = max(await asyncio.gather(*keeping))
        log.info("stopped", processes=self._count, exit_status=status)
        return status

    async def _begin(self) -> None:
        """At the start no port is open until all are ready, so that no load falls on the first."""
        for child in self._children:
            await child.warm.wait()
        self._may_begin.set()
        for child in self._children:
            await child.ready.wait()
        fields = [child.fields for child in self._children[:-1]]
        names = dict.fromkeys(str(each["device"]) for each in fields)
        bound = {
            key: [*dict.fromkeys(address for each in fields for address in each[key])]
            for key in ("addresses", "admin_addresses")
        }
        line = {**fields[0], **bound, "device": ", ".join(names)}
        log.info("ready", **line, processes=self._count)

    async def _keep(self, index: int) -> int:
        """Keeps one process running; returns the exit status that counts."""
        pause, failures = 0.0, 0
        while True:
            child = self._children[index]
            begun = time.monotonic()
            status = await self._run(child)
            if self._stopping.is_set():
                return min(abs(status), 1) if child.ready.is_set() else 0
            lived = child.ready.is_set()
            log.error(
                "process ended",
                process=child.slot.name,
                pid=child.process and child.process.pid,
                exit_status=status,
                served=lived,
            )
            self._counts.clear(index)
            failures = 0 if lived else failures + 1
            if not self._may_begin.is_set() or failures == MAX_FAILED_STARTS:
                return self._end(index, status)
            pause = pause_after(time.monotonic() - begun, pause, self._limits.pause_s)
            if await self._stops_within(pause):
                return 0
            self._children[index] = Child(child.slot, self._limits)

    async def _run(self, child: Child) -> int:
        try:
            return await child.run(share(self._settings, child.slot), self._may_begin.wait)
        except OSError as error:  # of memory, processes or descriptors
            log.error("process not started", process=child.slot.name, reason=str(error))
            return 1

    def _end(self, index: int, status: int) -> int:
        """Ends the server if its first process, or several in a row, cannot start."""
        name = self._children[index].slot.name
        log.error("process failed to start too often", process=name, exit_status=status)
        self._stop(signal.SIGTERM)
        return status if status in (CANNOT_START, DEVICE_FAILED) else 1

    async def _stops_within(self, seconds: float) -> bool:
        try:
            await asyncio.wait_for(self._stopping.wait(), seconds)
        except asyncio.TimeoutError:
            return False
        return True

    def _stop(self, number: signal.Signals) -> None:
        self._stopping.set()
        for child in self._children[:-1]:
            child.signal(number)


def pause_after(lived_s: float, before_s: float, first_s: float) -> float:
    """Seconds before a process that lived so long is replaced, given the pause before it began."""
    return 0.0 if lived_s > LIVED_S else min(max(2 * before_s, first_s), MAX_PAUSE_S)


def supervise(settings: Settings) -> int:
    """Runs the processes of a server until a signal; returns the exit status.

    Raises:
        StartError: an address cannot be bound.
    """
    ports = Ports(settings)
    try:
        with tempfile.TemporaryDirectory(prefix="farpoint-", ignore_cleanup_errors=True) as folder:
            return asyncio.run(Supervisor(ports, Path(folder)).run())
    finally:
        ports.close()
