"""Files decoded in a child process with limits of memory and time."""

import multiprocessing
import os
import signal
import sys
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from farpoint._types import Array
from farpoint.errors import CloudFileError
from farpoint.io import read_with, write_subset
from farpoint.io.budget import limit_process
from farpoint.io.cloud import Cloud, ReadOptions, Rows

_START_SECONDS = 60.0
# A message of a pipe has a length of 31 bits, and is copied.
_PIECE_BYTES = 1 << 24


@dataclass(frozen=True)
class Bounds:
    """Bounds of decoding one file.

    Attributes:
        memory_bytes: memory on top of what a child starts with; 0 is no bound.
        seconds: time for one step (reading, writing), and again for every 100 MB of the file.
    """

    memory_bytes: int = 0
    seconds: float = 60.0

    def seconds_for(self, path: Path) -> float:
        """Seconds for one step with a file."""
        size = path.stat().st_size if path.is_file() else 0
        return self.seconds * (1 + size / 100e6)


@dataclass(frozen=True)
class Opened:
    """A file that is open in a decoder."""

    points: Array
    notes: tuple[str, ...]
    unit: str | None


class Decoder:
    """A child process with one open file at a time; it starts with the first file.

    Every method raises CloudFileError, also where the child ran out of its bounds or crashed; the
    next file then gets another child.
    """

    def __init__(self, bounds: Bounds, threads: int = 1) -> None:
        self._bounds = bounds
        self._threads = threads
        self._process: Any = None
        self._pipe: Any = None
        self._errors: IO[bytes] | None = None
        self._path = Path()
        self._expired = False
        self._is_starting = False

    def start(self) -> None:
        """Starts the child ahead of time.

        A process without threads is forked, which takes no time; another one starts Python anew.
        """
        if self._process is not None and self._process.is_alive():
            return
        self.close()
        has_threads = threading.active_count() > 1 or "grpc" in sys.modules
        may_fork = sys.platform == "linux" and not has_threads
        context: Any = multiprocessing.get_context("fork" if may_fork else "spawn")
        self._errors = tempfile.NamedTemporaryFile(prefix="farpoint-")  # noqa: SIM115 - the child's
        self._pipe, end = context.Pipe()
        arguments = (end, self._pipe, self._bounds.memory_bytes, self._threads, self._errors.name)
        self._process = context.Process(target=serve, args=arguments, daemon=True)
        self._process.start()
        self._is_starting = True
        end.close()

    def open(self, path: Path, options: ReadOptions) -> Opened:
        """Reads a file."""
        self.start()
        self._path = path
        return Opened(**self._ask("open", path, options))

    def take(self, rows: Rows) -> Cloud:
        """Rows of the open file."""
        cloud: Cloud = self._ask("take", rows)["cloud"]
        return cloud

    def write(self, rows: Rows, paths: list[Path]) -> tuple[str, ...]:
        """Writes rows of the open file; returns notes about what was left out."""
        notes: tuple[str, ...] = self._ask("write", rows, paths)["notes"]
        return notes

    def close(self) -> None:
        """Ends the child."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._process.close()
            self._pipe.close()
        if self._errors is not None:
            self._errors.close()
        self._process = self._pipe = self._errors = None

    def __enter__(self) -> "Decoder":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(self, *request: object) -> dict[str, Any]:
        process, pipe = self._process, self._pipe
        if process is None:
            raise CloudFileError("the decoder is closed", path=self._path)
        seconds = self._bounds.seconds_for(self._path)
        self._expired = False
        timer = threading.Timer(seconds, self._expire)
        timer.daemon = True
        try:
            if self._is_starting:  # not in the time of the file
                if not pipe.poll(_START_SECONDS):
                    process.kill()
                pipe.recv()
                self._is_starting = False
            timer.start()
            pipe.send(request)
            status, *rest = pipe.recv()
            if status == "failed":
                raise CloudFileError(rest[0])
            return {**rest[0], "points": _received(pipe, *rest[0].get("points", ()))}
        except (EOFError, OSError) as error:
            if isinstance(error, CloudFileError):
                raise
            raise CloudFileError(self._why_it_died(seconds), path=self._path) from error
        finally:
            timer.cancel()

    def _expire(self) -> None:
        self._expired = True
        if self._process is not None:
            self._process.kill()

    def _why_it_died(self, seconds: float) -> str:
        if self._process is None or self._errors is None:
            return "the decoder is closed"
        self._process.join()
        code = self._process.exitcode
        if self._expired:
            return f"decoding took longer than {seconds:.3g} s"
        lines = Path(self._errors.name).read_text("utf-8", "replace").split("\n")
        line = next((one.strip()[:200] for one in reversed(lines) if one.strip()), "")
        ended = signal.Signals(-code).name if code < 0 else f"status {code}"
        return f"the decoder crashed ({ended}{': ' * bool(line)}{line})"


def _received(pipe: Any, dtype: str = "", shape: tuple[int, ...] = ()) -> Array | None:
    """The coordinates after an answer, in new memory; None if there are none."""
    if not dtype:
        return None
    points = np.empty(shape, dtype)
    rest = points.data.cast("B") if points.size else memoryview(b"")
    while len(rest):
        rest = rest[pipe.recv_bytes_into(rest) :]
    return points


class Worker:
    """Answers requests; each public method is one."""

    def __init__(self, pipe: Any) -> None:
        self._pipe = pipe
        self._path = Path()
        self._cloud: Cloud | None = None

    def open(self, path: Path, options: ReadOptions) -> None:
        """Reads a file."""
        self._path, self._cloud = path, None
        self._cloud = cloud = read_with(path, options)
        self._answer({"notes": cloud.notes, "unit": cloud.unit}, cloud.points)

    def take(self, rows: Rows) -> None:
        """The rows as a cloud."""
        self._answer({"cloud": self._open().take(rows)})

    def write(self, rows: Rows, paths: list[Path]) -> None:
        """Writes those rows to each path; answers with notes about what was left out."""
        notes: tuple[str, ...] = ()
        for path in paths:
            notes += write_subset(path, self._open(), rows)
        self._answer({"notes": notes})

    def _open(self) -> Cloud:
        if self._cloud is None:
            raise CloudFileError("no file is open", path=self._path)
        return self._cloud

    def _answer(self, values: dict[str, Any], points: Array | None = None) -> None:
        if points is None:
            self._pipe.send(("done", values))
            return
        array = np.ascontiguousarray(points)
        self._pipe.send(("done", {**values, "points": (array.dtype.str, array.shape)}))
        rest = array.data.cast("B") if array.size else memoryview(b"")
        while len(rest):
            self._pipe.send_bytes(rest[:_PIECE_BYTES])
            rest = rest[_PIECE_BYTES:]


def serve(pipe: Any, parents: Any, memory_bytes: int, threads: int, errors: str) -> None:
    """Answers requests until the parent ends.

    Args:
        pipe: connection for requests and answers.
        parents: the parent's end of it, which a forked child has too.
        memory_bytes: memory on top of what the process starts with.
        threads: number of threads that libraries may start.
        errors: file that libraries print to; standard output is for results.
    """
    parents.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which closes the pipe
    descriptor = os.open(errors, os.O_WRONLY | os.O_APPEND)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    share = {"RAYON_NUM_THREADS": f"{threads}", "OMP_NUM_THREADS": f"{threads}"}
    os.environ.update(share, RUST_BACKTRACE="0")
    limit_process(memory_bytes)
    worker = Worker(pipe)
    pipe.send(None)  # it has started
    while True:
        try:
            name, *arguments = pipe.recv()
        except EOFError:
            return
        try:
            getattr(worker, name)(*arguments)
        except CloudFileError as error:
            pipe.send(("failed", str(error), error.path))
