"""The child process of a `Decoder`: reads one file at a time and writes rows of it.

    python -m farpoint.io.worker BYTES

It reads pickled requests from standard input and answers on what was standard output; libraries
that print do so elsewhere. BYTES is how much memory it may take on top of what it starts with.
"""

import os
import pickle
import signal
import struct
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from farpoint._types import Array
from farpoint.errors import CloudFileError
from farpoint.io import open_chunks, read_with, write_subset
from farpoint.io.budget import limit_process
from farpoint.io.cloud import Chunks, Cloud, ReadOptions, Rows
from farpoint.io.files import naming
from farpoint.io.records import colors_of
from farpoint.io.registry import is_indices

LENGTH = struct.Struct("<Q")


class Worker:
    """Answers requests; each public method is one."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
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
            send(self._out, ("done", values))
            return
        array = np.ascontiguousarray(points)
        send(self._out, ("done", {**values, "points": (array.dtype.str, array.shape)}))
        self._out.write(array.data.cast("B"))
        self._out.flush()


def send(stream: BinaryIO, message: object) -> None:
    """Writes a pickled message behind its length."""
    packed = pickle.dumps(message, protocol=5)
    stream.write(LENGTH.pack(len(packed)))
    stream.write(packed)
    stream.flush()


def receive(stream: BinaryIO) -> Any:
    """The next message."""
    head = stream.read(LENGTH.size)
    if len(head) < LENGTH.size:
        raise EOFError
    packed = stream.read(LENGTH.unpack(head)[0])
    return pickle.loads(packed)


def main() -> None:
    """Answers requests until standard input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which closes the pipe
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    limit_process(int(sys.argv[1]))
    worker = Worker(out)
    while True:
        try:
            name, *arguments = receive(sys.stdin.buffer)
        except EOFError:
            return
        _attempt(out, getattr(worker, name), arguments)


def _attempt(out: BinaryIO, method: Callable[..., None], arguments: list[Any]) -> None:
    try:
        method(*arguments)
    except CloudFileError as error:
        send(out, ("failed", str(error), error.path))


if __name__ == "__main__":
    main()
