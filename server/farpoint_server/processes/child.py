"""A child process and its link to the supervisor: heartbeats up, permission to serve down."""

import asyncio
import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import structlog

from farpoint_server.config.settings import Settings
from farpoint_server.processes.slot import ProcessSlot, to_environment

UNHEALTHY = "process is not healthy"
# Beyond what a process gives itself to drain.
PATIENCE_S = 10.0
log = structlog.get_logger("farpoint.supervisor")


class Limits(NamedTuple):
    """Time limits of a process before it is killed; in seconds, or in checks of `check_s`.

    Checks are counted instead of time, so that no process is killed after the machine slept.
    """

    check_s: float = 1.0
    start: int = 300
    frozen: int = 3
    """Checks without a message of the process."""
    stuck: int = 60
    """Checks without a heartbeat of its event loop."""
    unhealthy: int = 30
    """Heartbeats of a process that is not healthy."""
    pause_s: float = 0.5
    """Before it is replaced."""


def drain_s(settings: Settings) -> float:
    """Seconds after which a process that drains is killed."""
    return settings.drain_grace_s + settings.drain_timeout_s + PATIENCE_S


class Child:
    """A process from its start to its end.

    Attributes:
        warm: Set once it could serve.
        ready: Set once it serves.
        fields: The fields of its log line "ready".
        slot: Of the process, without its link; with the models that an engine has loaded.
        process: None until it is started.
    """

    def __init__(self, slot: ProcessSlot, limits: Limits) -> None:
        self.slot, self._limits = slot, limits
        self.warm, self.ready = asyncio.Event(), asyncio.Event()
        self.fields: Mapping[str, Any] = {}
        self.process: asyncio.subprocess.Process | None = None
        self._signal: signal.Signals | None = None
        self._starting = self._frozen = self._stuck = self._unhealthy = 0

    async def run(self, settings: Settings, may_begin: Callable[[], Awaitable[object]]) -> int:
        """Starts this program as a process of the server; returns its exit status.

        Args:
            settings: Of the process.
            may_begin: Awaited before it may serve.
        """
        ours, theirs = socket.socketpair()
        slot = replace(self.slot, link=theirs.fileno())
        try:
            self.process = await asyncio.create_subprocess_exec(
                *(sys.executable, *sys.orig_argv[1:]),
                stdin=asyncio.subprocess.DEVNULL,
                pass_fds=(theirs.fileno(), *([slot.counts] if slot.counts >= 0 else ())),
                env={**os.environ, **to_environment(slot, settings)},
                # Ctrl-C reaches the whole foreground of a terminal; the supervisor forwards it.
                start_new_session=True,
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        if self._signal is not None:
            self.signal(self._signal)
        steps = (self._listen(ours), self._begin(ours, may_begin), self._watch(settings))
        tasks = [asyncio.create_task(step) for step in steps]
        try:
            return await self.process.wait()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def signal(self, number: signal.Signals) -> None:
        """Forwards a signal; to a process that is being started, once it exists."""
        self._signal = number
        if self.process is not None and self.process.returncode is None:
            self.process.send_signal(number)

    def receive(self, message: Mapping[str, Any]) -> None:
        """Handles a message of the process."""
        self._frozen = 0
        if message["event"] == "beat":
            self._stuck = 0
            # A process that loads or waits for the others is not healthy yet.
            is_well = message["serving"] or not self.ready.is_set()
            self._unhealthy = 0 if is_well else self._unhealthy + 1
        elif message["event"] == "warm":
            self.warm.set()
        elif message["event"] == "models":
            self.slot = replace(self.slot, models=message["models"])
        elif message["event"] == "ready":
            self.fields = message["fields"]
            self.ready.set()
            log.info("process ready", process=self.slot.name, pid=message["pid"])

    def check(self) -> str | None:
        """Counts one more check; returns a fault that has lasted too long."""
        limits = self._limits
        # torch loads for seconds, in which nothing else may run.
        if not self.warm.is_set():
            self._starting += 1
            return "process did not start in time" if self._starting > limits.start else None
        self._frozen += 1
        self._stuck += 1
        if self._frozen > limits.frozen or self._stuck > limits.stuck:
            return "process does not answer"
        return UNHEALTHY if self._unhealthy > limits.unhealthy else None

    async def _listen(self, link: socket.socket) -> None:
        reader, writer = await asyncio.open_connection(sock=link)
        try:
            while line := await reader.readline():
                self.receive(json.loads(line))
        finally:
            writer.close()

    async def _begin(self, link: socket.socket, may_begin: Callable[[], Awaitable[object]]) -> None:
        await self.warm.wait()
        await may_begin()
        link.send(b"\n")

    async def _watch(self, settings: Settings) -> None:
        reason = None
        while reason is None:
            await asyncio.sleep(self._limits.check_s)
            reason = self.check()
        log.error(reason, process=self.slot.name, pid=self.process and self.process.pid)
        if reason == UNHEALTHY:
            # It may still answer calls.
            self.signal(signal.SIGTERM)
            await asyncio.sleep(drain_s(settings))
        self.signal(signal.SIGKILL)


# Less than `Limits.frozen` checks.
BEAT_S = 1.0


class Link:
    """One end of a pair of sockets, in the process; lines of JSON go up, and one line comes down.

    Args:
        is_serving: Whether the process is healthy; sent with each beat.
    """

    def __init__(
        self, end: socket.socket, is_serving: Callable[[], bool], beat_s: float = BEAT_S
    ) -> None:
        end.setblocking(False)
        self._socket, self._is_serving, self._beat_s = end, is_serving, beat_s
        self._beating: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Starts to send heartbeats of the process and of its event loop."""
        self._beating = asyncio.create_task(self._beat())
        threading.Thread(target=self._send_alive, name="heartbeat", daemon=True).start()

    async def warm(self) -> None:
        """Reports that this process is loaded; returns once all processes are and it may serve."""
        self._send("warm")
        await asyncio.get_running_loop().sock_recv(self._socket, 1)

    def ready(self, fields: Mapping[str, Any]) -> None:
        """Reports that calls are answered, with the fields of the log line."""
        self._send("ready", fields=fields, pid=os.getpid())

    def models(self, models: Sequence[str]) -> None:
        """Reports the loaded models, for a process that will replace this one."""
        self._send("models", models=models)

    def _send_alive(self) -> None:
        # On a thread: the event loop of a healthy process may be busy for seconds.
        while True:
            self._send("alive")
            time.sleep(self._beat_s)

    async def _beat(self) -> None:
        while True:
            self._send("beat", serving=self._is_serving())
            await asyncio.sleep(self._beat_s)

    def _send(self, event: str, **more: Any) -> None:
        try:
            self._socket.send(json.dumps({"event": event, **more}).encode() + b"\n")
        except OSError:  # the supervisor does not read, or is gone
            return


def on_end_signals(act: Callable[[signal.Signals], object]) -> None:
    """Calls a function on SIGTERM, SIGINT and, unless it is ignored (nohup), SIGHUP."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        if number is not signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
            asyncio.get_running_loop().add_signal_handler(number, act, number)
