"""Files decoded in a child process, bounded in memory and time, which may die without harm."""

import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from farpoint._types import Array
from farpoint.errors import CloudFileError
from farpoint.io.cloud import Cloud, ReadOptions, Rows
from farpoint.io.worker import receive, send


@dataclass(frozen=True)
class Bounds:
    """Bounds of decoding one file.

    Attributes:
        memory_bytes: on top of what a child starts with; 0 is no bound.
        seconds: for one step (reading, a chunk, writing), and as many again for every 100 MB of
            the file.
    """

    memory_bytes: int = 0
    seconds: float = 60.0

    def seconds_for(self, path: Path) -> float:
        """For one step with a file."""
        size = path.stat().st_size if path.is_file() else 0
        return self.seconds * (1 + size / 100e6)


@dataclass(frozen=True)
class Opened:
    """A file that a decoder has open."""

    count: int
    points: Array | None
    notes: tuple[str, ...]
    unit: str | None = None


class Decoder:
    """A child process that has one file open at a time. It starts with the first file.

    Every method raises CloudFileError, also where the child ran out of its bounds or crashed; the
    next file then gets another child.
    """

    def __init__(self, bounds: Bounds, threads: int = 1) -> None:
        self._bounds = bounds
        self._threads = threads
        self._process: subprocess.Popen[bytes] | None = None
        self._stderr: IO[bytes] | None = None
        self._path = Path()
        self._expired = False

    def start(self) -> None:
        """Starts the child ahead of time."""
        if self._process is None or self._process.poll() is not None:
            self.close()
            self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the child
            command = [sys.executable, "-m", "farpoint.io.worker", str(self._bounds.memory_bytes)]
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._stderr,
                env={**os.environ, **self._environment()},
            )

    def open(self, path: Path, options: ReadOptions, most_points: int) -> Opened:
        """Reads a file, or gets ready to read it in chunks of `most_points`."""
        self.start()
        self._path = path
        answer = self._ask("open", path, options, most_points)
        return Opened(answer["count"], answer["points"], answer["notes"], answer["unit"])

    def chunks(self) -> Iterator[Array]:
        """Coordinates of the chunks, in the order of the file."""
        while (points := self._ask("chunk")["points"]) is not None:
            yield points

    def take(self, rows: Rows) -> Cloud:
        """Rows of the open file."""
        cloud: Cloud = self._ask("take", rows)["cloud"]
        return cloud

    def colors(self) -> Array | None:
        """(N, 3) uint8 of the open file; None where it has none."""
        colors: Array | None = self._ask("colors")["points"]
        return colors

    def write(self, rows: Rows, paths: list[Path]) -> tuple[str, ...]:
        """Writes rows of the open file; returns notes about what was left out."""
        notes: tuple[str, ...] = self._ask("write", rows, paths)["notes"]
        return notes

    def close(self) -> None:
        """Ends the child."""
        process, self._process = self._process, None
        if process is not None and process.stdin and process.stdout:
            process.kill()
            process.wait()
            with suppress(BrokenPipeError):  # what was not sent is not wanted any more
                process.stdin.close()
            process.stdout.close()
        if self._stderr is not None:
            self._stderr.close()
            self._stderr = None

    def __enter__(self) -> "Decoder":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _environment(self) -> dict[str, str]:
        """This process's packages, and no more threads than are this decoder's share."""
        threads = str(self._threads)
        return {
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            "RAYON_NUM_THREADS": threads,
            "OMP_NUM_THREADS": threads,
            "OPENBLAS_NUM_THREADS": "1",
            "RUST_BACKTRACE": "0",
        }

    def _ask(self, *request: object) -> dict[str, Any]:
        process = self._process
        if process is None or process.stdin is None or process.stdout is None:
            raise CloudFileError("the decoder is closed", path=self._path)
        seconds = self._bounds.seconds_for(self._path)
        self._expired = False
        timer = threading.Timer(seconds, self._expire)
        timer.daemon = True
        timer.start()
        try:
            send(process.stdin, request)  # type: ignore[arg-type]
            status, *rest = receive(process.stdout)  # type: ignore[arg-type]
            if status == "failed":
                raise CloudFileError(rest[0])
            return _with_points(process.stdout, rest[0])
        except (EOFError, BrokenPipeError) as error:
            raise CloudFileError(self._why_it_died(seconds), path=self._path) from error
        finally:
            timer.cancel()

    def _expire(self) -> None:
        self._expired = True
        if self._process is not None:
            self._process.kill()

    def _why_it_died(self, seconds: float) -> str:
        assert self._process is not None
        code = self._process.wait()
        if self._expired:
            return f"decoding took longer than {seconds:.0f} s"
        line = _last_line(self._stderr)
        ended = signal.Signals(-code).name if code < 0 else f"status {code}"
        return f"the decoder crashed ({ended}{': ' * bool(line)}{line})"


def _with_points(stream: IO[bytes], answer: dict[str, Any]) -> dict[str, Any]:
    """Receives the coordinates that follow an answer, into memory of their own."""
    if not answer.get("points"):
        return {**answer, "points": None}
    dtype, shape = answer["points"]
    points = np.empty(shape, dtype)
    rest = points.data.cast("B") if points.size else memoryview(b"")
    while len(rest):
        count = stream.readinto(rest)  # type: ignore[attr-defined]
        if not count:
            raise EOFError
        rest = rest[count:]
    return {**answer, "points": points}


def _last_line(stream: IO[bytes] | None) -> str:
    if stream is None:
        return ""
    stream.seek(0)
    lines = stream.read().decode("utf-8", "replace").strip().splitlines()
    return lines[-1].strip()[:200] if lines else ""
