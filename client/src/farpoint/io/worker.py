"""The child process of a `Decoder`: reads one file at a time and writes rows of it."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from farpoint._types import Array
from farpoint.errors import CloudFileError
from farpoint.io import open_chunks, read_with, write_subset
from farpoint.io.budget import limit_process
from farpoint.io.cloud import Chunks, Cloud, ReadOptions, Rows
from farpoint.io.files import naming
from farpoint.io.records import colors_of
from farpoint.io.registry import is_indices

# A message of a pipe has a length of 31 bits, and is copied.
_PIECE_BYTES = 1 << 24


class Worker:
    """Answers requests; each public method is one."""

    def __init__(self, pipe: Any) -> None:
        self._pipe = pipe
        self._path = Path()
        self._cloud: Cloud | None = None
        self._chunks: Chunks | None = None
        self._parts: Iterator[Array] = iter(())
        self._chunk_points = 0

    def open(self, path: Path, options: ReadOptions, most_points: int) -> None:
        """Reads a file whole, or gets ready to read it in chunks of `most_points`."""
        self.close()
        self._path, self._chunk_points = path, most_points
        self._chunks = open_chunks(path, options, most_points)
        if self._chunks is not None:
            self._parts = iter(self._chunks.chunks(most_points))
            self._answer({"count": self._chunks.count, "notes": (), "unit": None})
            return
        self._cloud = read_with(path, options)
        cloud = self._cloud
        known = {"count": len(cloud), "notes": cloud.notes, "unit": cloud.unit}
        self._answer(known, cloud.points)

    def chunk(self) -> None:
        """The coordinates of the next chunk; none behind the last."""
        with naming(self._path):
            part = next(self._parts, None)
        self._answer({}, part)

    def take(self, rows: Rows) -> None:
        """Those rows as a cloud."""
        self._answer({"cloud": self._gather(rows).take(np.arange(len(rows)))})

    def colors(self) -> None:
        """(N, 3) uint8 of a file that is read whole; none where it has none."""
        with naming(self._path):
            self._answer({}, colors_of(self._whole().attributes))

    def write(self, rows: Rows, paths: list[Path]) -> None:
        """Writes those rows to each path; answers with notes about what was left out."""
        chosen = self._gather(rows) if self._chunks is not None else self._whole()
        places = np.arange(len(rows)) if self._chunks is not None else rows
        notes: tuple[str, ...] = ()
        for path in paths:
            notes += write_subset(path, chosen, rows if is_indices(path) else places)
        self._answer({"notes": notes})

    def close(self) -> None:
        """Closes the file."""
        self._cloud = self._chunks = None
        self._parts = iter(())

    def _whole(self) -> Cloud:
        if self._cloud is None:
            raise CloudFileError("no file is open", path=self._path)
        return self._cloud

    def _gather(self, rows: Rows) -> Cloud:
        if self._chunks is None:
            return self._whole().take(rows)
        with naming(self._path):
            return self._chunks.gather(rows, self._chunk_points)

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
    """Answers requests until the parent is gone.

    Args:
        pipe: where requests come from and answers go to.
        parents: the parent's end of it, which a forked child has too.
        memory_bytes: as much may be taken on top of what the process starts with.
        threads: that libraries may start.
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
