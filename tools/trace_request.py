"""Call tracer: lists the Python files of ours that one Sample call enters, and counts the moves.

A server on an event loop in a thread and the synchronous client in the main thread share this
process and a unix socket. One call of 200 000 float32 points warms both up; the calls after it are
traced with `sys.setprofile` in every thread, each by itself.

What is counted, in client and server together, in the order of time:

* entries: each function of ours that is called, and each coroutine or generator of ours that goes
  on after it has waited ("call" events of the profiler). Generated code, `__init__.py` and what
  has no file (the constructors of dataclasses and named tuples) do not count.
* files: those that are entered, in the order of the first entry.
* moves: entries into another file than the entry before. So a call of another file is one move,
  and its caller's next call within its own file is another; a return alone is none.

Run it with the packages of the tree in question on PYTHONPATH:

    python tools/trace_request.py [--points 200000] [--samples 1024] [--entries]
"""

import argparse
import asyncio
import sys
import tempfile
import threading
import time
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np

import farpoint
from farpoint_server.app.server import App
from farpoint_server.config.settings import Settings
from farpoint_server.observability import logging

PACKAGES = ("farpoint", "farpoint_models", "farpoint_ops", "farpoint_server")
# The log line follows the answer. Two calls in a row take less than the 0.1 s after which the
# memory manager measures a batch again, which is no part of a call either.
SETTLE_S = 0.02
# Now and then the memory manager looks after its device in between, and the thread of the log
# writes its line in the middle of what is left to do.
CALLS = 25


class Tracer:
    """A profile function that notes which of our files are entered, in order."""

    def __init__(self) -> None:
        self.entries: list[tuple[str, str]] = []
        """File and function."""
        self._files: dict[CodeType, str | None] = {}

    def profile(self, frame: FrameType, event: str) -> None:
        """For sys.setprofile and threading.setprofile."""
        if event != "call":
            return
        code = frame.f_code
        if code not in self._files:
            self._files[code] = _file_of_ours(code.co_filename)
        file = self._files[code]
        if file is not None:
            self.entries.append((file, code.co_name))

    @property
    def files(self) -> list[str]:
        """Those entered, in the order of the first entry."""
        return list(dict.fromkeys(file for file, _ in self.entries))

    @property
    def moves(self) -> int:
        """Entries into another file than the one before."""
        return sum(a[0] != b[0] for a, b in zip(self.entries, self.entries[1:], strict=False))


def _file_of_ours(filename: str) -> str | None:
    """Path of a source file from its package on; None if it does not count."""
    path = Path(filename)
    if path.name == "__init__.py" or path.stem.endswith(("_pb2", "_pb2_grpc")):
        return None
    for index, part in enumerate(path.parts):
        if part in PACKAGES and Path(*path.parts[: index + 1], "__init__.py").exists():
            return "/".join(path.parts[index:])
    return None


class Server:
    """A farpoint-server on an event loop in a thread, reached through a unix socket."""

    def __init__(self, address: str) -> None:
        settings = Settings(listen=(address,), device=("cpu",), encoder=())
        logging.configure(settings)
        self._app: Any = None
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        asyncio.run_coroutine_threadsafe(self._start(settings), self._loop).result()

    def stop(self) -> None:
        asyncio.run_coroutine_threadsafe(self._app.stop(0), self._loop).result()
        logging.close()

    async def _start(self, settings: Any) -> None:
        self._app = App(settings)
        await self._app.start()


def trace(points: int, samples: int) -> Tracer:
    """What a call enters that is like the one before: of several the one with the fewest moves."""
    tracers: list[Tracer] = []
    active: Tracer | None = None

    def profile(frame: FrameType, event: str, _: object) -> None:
        if active is not None:
            active.profile(frame, event)

    threading.setprofile(profile)
    with tempfile.TemporaryDirectory() as folder:
        address = f"unix:{folder}/socket"
        server = Server(address)
        cloud = np.random.default_rng(0).random((points, 3), np.float32)
        with farpoint.Client(address) as client:
            client.sample(cloud, samples)
            for call in range(CALLS):
                client.sample(cloud, samples)
                # The log gathers lines for a time: it is to write at another moment each time.
                time.sleep(SETTLE_S * (1 + call % 5) / 2)
                tracers.append(Tracer())
                active = tracers[-1]
                sys.setprofile(profile)
                client.sample(cloud, samples)
                sys.setprofile(None)
                # The answer is here before the server has done with the call.
                time.sleep(SETTLE_S)
                active = None
        server.stop()
    return min(tracers, key=lambda tracer: tracer.moves)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--points", type=int, default=200_000)
    parser.add_argument("--samples", type=int, default=1024)
    parser.add_argument("--entries", action="store_true", help="show each entry instead of files")
    arguments = parser.parse_args()
    tracer = trace(arguments.points, arguments.samples)
    if arguments.entries:
        print(*(f"{file} {function}" for file, function in tracer.entries), sep="\n")
    else:
        print(*tracer.files, sep="\n")
    print(f"{len(tracer.files)} files, {tracer.moves} moves")


if __name__ == "__main__":
    main()
