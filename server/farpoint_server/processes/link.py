"""The link of a process to its supervisor: it says that it is alive, and learns when to begin."""

import asyncio
import json
import os
import socket
from collections.abc import Callable, Mapping
from typing import Any

# The supervisor gives up a process that has said nothing for a minute (child.py).
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
        """Says from now on that the event loop goes round."""
        self._beating = asyncio.create_task(self._beat())

    async def warm(self) -> None:
        """Says that all is ready to serve, and returns once it may: with the slowest at the start.

        Returns as well when the supervisor is gone, which `lost` tells.
        """
        self._say("warm")
        await asyncio.get_running_loop().sock_recv(self._socket, 1)

    def ready(self, fields: Mapping[str, Any]) -> None:
        """Says that calls are answered, and what the line of the log has to say of it."""
        self._say("ready", fields=fields, pid=os.getpid())

    async def lost(self) -> None:
        """Returns once the supervisor is gone; call it after `warm`."""
        while await asyncio.get_running_loop().sock_recv(self._socket, 1):
            pass

    def stop(self) -> None:
        """Says no more."""
        if self._beating is not None:
            self._beating.cancel()

    async def _beat(self) -> None:
        while True:
            self._say("beat", serving=self._is_serving())
            await asyncio.sleep(BEAT_S)

    def _say(self, event: str, **more: Any) -> None:
        try:
            self._socket.send(json.dumps({"event": event, **more}).encode() + b"\n")
        except OSError:  # nobody reads, or nobody is there
            return
