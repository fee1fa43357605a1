"""The link of a process to its supervisor: heartbeats go up, permission to begin comes down."""

import asyncio
import json
import os
import socket
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

# The supervisor kills a process that says nothing for five seconds (child.py).
BEAT_S = 1.0


class Link:
    """One end of a pair of sockets, in the process; lines of JSON go up, and one line comes down.

    Args:
        descriptor: Of the socket, as the supervisor has handed it over.
        is_serving: Whether the process is healthy, which each beat says.
    """

    def __init__(self, descriptor: int, is_serving: Callable[[], bool]) -> None:
        self._socket = socket.socket(fileno=descriptor)
        self._socket.setblocking(False)
        self._is_serving = is_serving
        self._beating: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Says from now on that the process is alive, and that its event loop goes round."""
        self._beating = asyncio.create_task(self._beat())
        threading.Thread(target=self._live, name="heartbeat", daemon=True).start()

    async def warm(self) -> None:
        """Says that all is ready to serve, and returns once it may: with the slowest one."""
        self._say("warm")
        await asyncio.get_running_loop().sock_recv(self._socket, 1)

    def ready(self, fields: Mapping[str, Any]) -> None:
        """Says that calls are answered, and what the line of the log has to say of it."""
        self._say("ready", fields=fields, pid=os.getpid())

    def _live(self) -> None:
        # On a thread: an event loop may be busy for seconds in a process that is not frozen.
        while True:
            self._say("alive")
            time.sleep(BEAT_S)

    async def _beat(self) -> None:
        while True:
            self._say("beat", serving=self._is_serving())
            await asyncio.sleep(BEAT_S)

    def _say(self, event: str, **more: Any) -> None:
        try:
            self._socket.send(json.dumps({"event": event, **more}).encode() + b"\n")
        except OSError:  # the supervisor does not read, or is gone
            return
