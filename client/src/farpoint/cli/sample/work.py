"""Processing of one file, from reading to its line."""

import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np

from farpoint._rpcs.methods import VoxelGrid
from farpoint._types import Array
from farpoint.cli.sample.options import Options
from farpoint.cli.sample.plan import STDIN, Input, Task, check_format
from farpoint.errors import CloudFileError, InvalidArgumentError
from farpoint.io import read_with, write_subset
from farpoint.io.cloud import Cloud, Rows
from farpoint.io.files import naming
from farpoint.results import Sample

Send: TypeAlias = Callable[..., Sample]


@dataclass(frozen=True)
class Choice:
    """The rows chosen from a cloud, in order of choice.

    Attributes:
        rows: (m,) int64.
        radius: the covering radius; None where it is not measured.
        sample: the server's; None where every row is chosen.
    """

    rows: Rows
    radius: float | None
    sample: Sample | None = None


def sample_file(send: Send, task: Task, options: Options) -> str:
    """Samples one file and writes the outputs of its task; the line to print.

    Args:
        send: `Client.sample`.
    """
    check_format(task, options)
    with _naming(task), _local_copy(task.source, options.read.format) as path:
        cloud = read_with(path, options.read)
        choice = _choose(send, cloud.points, options)
        notes = cloud.notes
        # The indices first: an output that `--resume` finds has them.
        for output in reversed(task.outputs(options)):
            notes += write_subset(output, cloud, choice.rows)
    render = _as_json if options.as_json else _as_text
    return render(task, cloud, choice, tuple(dict.fromkeys(notes)))


@contextmanager
def _local_copy(source: Input, suffix: str | None) -> Iterator[Path]:
    """A path that readers can open: the input's own, or that of a copy of standard input."""
    if source.location != STDIN:
        yield Path(source.location)
        return
    with tempfile.TemporaryDirectory(prefix="farpoint-") as folder:
        path = Path(folder) / f"stdin{suffix or ''}"
        with naming(Path(STDIN)), path.open("wb") as stream:
            shutil.copyfileobj(sys.stdin.buffer, stream)
        try:
            yield path
        except CloudFileError as error:  # the caller does not know the copy's name
            raise CloudFileError(str(error).replace(str(path), STDIN)) from error


def _choose(send: Send, points: Array, options: Options) -> Choice:
    rows = _candidates(points, options)
    m: int | None = _amount(len(rows), options)
    if m == len(rows) and options.all_if_fewer and options.is_counted:
        return Choice(rows, 0.0)
    if isinstance(options.method, VoxelGrid):
        m = None
    start = _start(rows, options)
    if options.skip_zero:  # the others are not sent, and all that are sent are finite
        points = points[rows]
    elif options.has_start:
        start = int(rows[start])
    sample = send(
        points,
        m,
        start=start,
        nonfinite="ignore" if options.ignores_nonfinite else "reject",
        radius=options.covering_radius,
        method=options.method,
    )
    indices = rows[sample.indices] if options.skip_zero else sample.indices
    radius = sample.covering_radius if len(sample.distances) else None
    return Choice(indices, radius, sample=sample)


def _candidates(points: Array, options: Options) -> Rows:
    """The rows that may be sampled."""
    finite = np.isfinite(points).all(axis=1)
    if not options.ignores_nonfinite and not finite.all():
        first = int(np.argmin(finite))
        raise InvalidArgumentError(
            f"{int((~finite).sum())} rows are not finite, the first is {first}: "
            "--nonfinite ignore never chooses them",
            field="points",
        )
    if options.skip_zero:
        finite &= points.any(axis=1)
    return np.flatnonzero(finite)


def _amount(usable: int, options: Options) -> int:
    """The number of samples."""
    m = options.amount if isinstance(options.amount, int) else round(options.amount * usable) or 1
    if options.all_if_fewer and m > usable > 0:
        return usable
    if not 1 <= m <= usable:
        hint = "" if m < 1 or not usable else ": --all-if-fewer takes them all"
        raise InvalidArgumentError(
            f"-m must be from 1 to the {usable} points that may be chosen, got {m}{hint}", field="m"
        )
    return m


def _start(rows: Rows, options: Options) -> int:
    """The place of the first sample among the rows."""
    if options.start is None:
        return 0
    place = int(np.searchsorted(rows, options.start))
    if place == len(rows) or rows[place] != options.start:
        raise InvalidArgumentError(
            f"--start must be a row that may be chosen, of those up to {rows[-1]}, "
            f"got {options.start}",
            field="start",
        )
    return place


@contextmanager
def _naming(task: Task) -> Iterator[None]:
    """Prepends the file's name to errors about its points."""
    try:
        yield
    except InvalidArgumentError as error:
        message = f"{task.source.location}: {error.message}"
        raise InvalidArgumentError(
            message, field=error.field, request_id=error.request_id
        ) from error
    except MemoryError as error:
        raise CloudFileError("does not fit in memory", path=task.source.location) from error


def _as_json(task: Task, cloud: Cloud, choice: Choice, notes: tuple[str, ...]) -> str:
    """One object on one line; `covering_radius` may be null."""
    sample = choice.sample
    origin = None if sample is None or sample.origin is None else sample.origin.tolist()
    return json.dumps(
        {
            "input": task.source.location,
            "output": task.output,
            "points": len(cloud),
            "samples": len(choice.rows),
            "covering_radius": choice.radius,
            "unit": cloud.unit,
            "notes": notes,
            "origin": origin,
            "timings": None if sample is None else asdict(sample.timings),
            "request_id": "" if sample is None else sample.request_id,
        }
    )


def _as_text(task: Task, cloud: Cloud, choice: Choice, notes: tuple[str, ...]) -> str:
    """One line."""
    target = task.output or task.indices_path
    line = f"{task.source.location} -> {target}: {len(choice.rows)} of {len(cloud)} points"
    if choice.radius is not None:
        line += f", covering radius {choice.radius:.4g}"
    if choice.sample is not None:
        t = choice.sample.timings
        line += f", {t.total_ms:.1f} ms (queue {t.queue_ms:.1f}, compute {t.compute_ms:.1f}, "
        line += f"wire {t.wire_ms:.1f})"
    return line + "".join(f"; {note}" for note in notes)
