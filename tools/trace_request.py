"""Call tracer: lists our Python files that one Sample call enters, and counts the moves.

A server on an event loop in a thread and the synchronous client in the main thread share this
process and a unix socket. `sys.setprofile` in every thread traces calls of 200,000 float32 points
after one that warms both up; the call with the fewest moves is shown.

* entries: each function of ours that is called, and each coroutine or generator of ours that goes
  on after it has waited. Generated code, `__init__.py` and code without a file do not count.
* files: those that are entered, in the order of the first entry.
* moves: entries into another file than the entry before.

    python tools/trace_request.py
"""

import asyncio
import sys
import tempfile
import threading
import time
from itertools import pairwise
from pathlib import Path
from types import FrameType

import numpy as np

import farpoint
from farpoint_server.app.server import App
from farpoint_server.config.settings import Settings
from farpoint_server.observability import logging

PACKAGES = ("farpoint", "farpoint_models", "farpoint_ops", "farpoint_server")
POINTS, SAMPLES = 200_000, 1024
# The log line follows the answer. Two calls in a row take less than the 0.1 s after which the
# memory manager measures a batch again, which is no part of a call.
SETTLE_S = 0.02
# The memory manager and the thread of the log work in the middle of some of them.
CALLS = 25


def file_of_ours(filename: str) -> str | None:
    """Path of a source file from its package on; None if it does not count."""
    path = Path(filename)
    if path.name == "__init__.py" or path.stem.endswith(("_pb2", "_pb2_grpc")):
        return None
    for index, part in enumerate(path.parts):
        if part in PACKAGES and Path(*path.parts[: index + 1], "__init__.py").exists():
            return "/".join(path.parts[index:])
    return None


async def start(address: str) -> App:
    settings = Settings(listen=(address,), device=("cpu",), encoder=())
    logging.configure(settings)
    app = App(settings)
    await app.start()
    return app


def count_moves(entered: list[str]) -> int:
    return sum(a != b for a, b in pairwise(entered))


def trace(address: str) -> list[str]:
    """The files that a call enters, in the order of time."""
    entered: list[str] | None = None

    def profile(frame: FrameType, event: str, _: object) -> None:
        if entered is not None and event == "call":
            entered.append(frame.f_code.co_filename)

    traces = []
    threading.setprofile(profile)
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    app = asyncio.run_coroutine_threadsafe(start(address), loop).result()
    cloud = np.random.default_rng(0).random((POINTS, 3), np.float32)
    with farpoint.Client(address) as client:
        for call in range(CALLS):
            client.sample(cloud, SAMPLES)
            # The log gathers lines for a time, so that it writes at another moment each time.
            time.sleep(SETTLE_S * (1 + call % 5) / 2)
            entered = []
            sys.setprofile(profile)
            client.sample(cloud, SAMPLES)
            sys.setprofile(None)
            # The answer is here before the server has done with the call.
            time.sleep(SETTLE_S)
            files, entered = map(file_of_ours, entered), None
            traces.append([file for file in files if file])
    asyncio.run_coroutine_threadsafe(app.stop(0), loop).result()
    logging.close()
    return min(traces, key=count_moves)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        found = trace(f"unix:{folder}/socket")
    files = list(dict.fromkeys(found))
    print(*files, f"{len(files)} files, {count_moves(found)} moves", sep="\n")
