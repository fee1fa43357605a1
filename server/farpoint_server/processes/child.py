"""One process as the supervisor sees it: started, listened to, killed where it does not answer."""

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import structlog

from farpoint_server.config.settings import Settings
from farpoint_server.processes.place import Place, tell

# A process whose event loop stands still, and one whose engines hang, have so many seconds to come
# back; they are counted in checks, so that a machine that slept kills nobody.
CHECK_S = 1.0
MOST_SILENT = 60
MOST_SICK = 30
# Beyond what a process gives itself to drain.
PATIENCE_S = 10.0
log = structlog.get_logger("farpoint.supervisor")


class Child:
    """A process from its start to its end.

    Attributes:
        warm: Set once it could serve.
        ready: Set once it serves.
        fields: What it says of itself then.
        process: None until it is started.
    """

    def __init__(self, index: int) -> None:
        self.index = index
        self.warm, self.ready = asyncio.Event(), asyncio.Event()
        self.fields: Mapping[str, Any] = {}
        self.process: asyncio.subprocess.Process | None = None
        self._silent = self._sick = 0

    async def run(
        self,
        place: Callable[[int], Place],
        settings: Settings,
        log_descriptor: int,
        may_begin: Callable[[], Awaitable[object]],
    ) -> int:
        """Starts the program that this one is as a process of the server; its exit status.

        Args:
            place: Of the process, given the descriptor of its link.
            settings: Its own.
            log_descriptor: Its standard error; closed here once it has it.
            may_begin: Awaited before it may serve.
        """
        ours, theirs = socket.socketpair()
        environment = {**os.environ, **tell(place(theirs.fileno()), settings)}
        try:
            self.process = await asyncio.create_subprocess_exec(
                *(sys.executable, *sys.orig_argv[1:]),
                stdin=asyncio.subprocess.DEVNULL,
                stderr=log_descriptor,
                pass_fds=(theirs.fileno(),),
                env=environment,
                # Ctrl-C reaches all that is in the terminal's foreground; the second one cuts off.
                start_new_session=True,
            )
        except OSError:
            ours.close()
            raise
        finally:
            theirs.close()
            os.close(log_descriptor)
        tasks = [asyncio.create_task(self._listen(ours, may_begin))]
        tasks.append(asyncio.create_task(self._check(settings)))
        try:
            return await self.process.wait()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def signal(self, number: signal.Signals) -> None:
        """Passes a signal on, to a process that is there."""
        if self.process is not None and self.process.returncode is None:
            self.process.send_signal(number)

    async def _listen(
        self, link: socket.socket, may_begin: Callable[[], Awaitable[object]]
    ) -> None:
        reader, writer = await asyncio.open_connection(sock=link)
        try:
            while line := await reader.readline():
                said = json.loads(line)
                if said["event"] == "beat":
                    self._silent = 0
                    self._sick = 0 if said["serving"] else self._sick + 1
                elif said["event"] == "warm":
                    self.warm.set()
                    await may_begin()
                    writer.write(b"\n")
                else:
                    self.fields = said["fields"]
                    self._silent = self._sick = 0
                    self.ready.set()
                    log.info("process ready", process=self.index, pid=said["pid"])
        finally:
            writer.close()

    async def _check(self, settings: Settings) -> None:
        await self.ready.wait()
        while self._silent <= MOST_SILENT and self._sick <= MOST_SICK:
            await asyncio.sleep(CHECK_S)
            self._silent += 1
        silent = self._silent > MOST_SILENT
        pid = self.process and self.process.pid
        log.error(
            "process does not answer" if silent else "process is not healthy",
            process=self.index,
            pid=pid,
        )
        if not silent:
            # It may hold calls that it can answer still.
            self.signal(signal.SIGTERM)
            await asyncio.sleep(settings.drain_grace_s + settings.drain_timeout_s + PATIENCE_S)
        self.signal(signal.SIGKILL)
