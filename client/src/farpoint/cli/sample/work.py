"""Processing of one file, from reading to its line, on one thread with one decoder."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from farpoint._types import Array
from farpoint.cli.sample.choose import Choice, choose
from farpoint.cli.sample.inputs import local_copy
from farpoint.cli.sample.options import Options
from farpoint.cli.sample.plan import Task
from farpoint.errors import CloudFileError, InvalidArgumentError
from farpoint.io.cloud import Cloud
from farpoint.io.decoder import Decoder, Opened
from farpoint.io.records import columns_of

if TYPE_CHECKING:
    from farpoint._client import Client


def sample_file(
    client: "Client", decoder: Decoder, task: Task, options: Options, limit: int
) -> str:
    """Samples one file and writes the outputs of its task; the line to print.

    Args:
        limit: points that `client` takes in one request.
    """
    if task.problem is not None:
        raise CloudFileError(task.problem)
    notes: tuple[str, ...] = ()
    with _naming(task), local_copy(task.source, options.read.format) as path:
        opened = decoder.open(path, options.read)
        choice = _choose(client, opened.points, options, limit)
        if task.to_stdout:
            _print_rows(decoder.take(choice.rows), choice)
        if task.output is not None or options.indices:
            notes = _write(decoder, task, choice, options)
        if task.picture is not None:
            _draw(decoder, opened, choice, task.picture)
    render = _as_json if options.as_json else _as_text
    return "" if task.to_stdout else render(task, opened, choice, opened.notes + notes)


def _choose(client: "Client", points: Array, options: Options, limit: int) -> Choice:
    if len(points) > limit:
        raise InvalidArgumentError(
            f"{len(points)} points, and the server takes {limit} at once "
            "(--max-request-points of farpoint-server)",
            field="points",
        )
    return choose(client, points, options)


def _print_rows(cloud: Cloud, choice: Choice) -> None:
    """JSON lines, one object per point; NaN and infinity, which JSON lacks, become null."""
    columns = {"index": choice.rows, **columns_of(cloud.points, cloud.attributes)}
    if choice.sample is not None and len(choice.sample.distances):
        columns["distance"] = choice.sample.distances
    for row in zip(*map(_plain, columns.values()), strict=True):
        sys.stdout.write(json.dumps(dict(zip(columns, row, strict=True))) + "\n")


def _plain(column: Array) -> list[object]:
    if column.dtype.kind != "f":
        return list(column.tolist())
    # By way of text, so that float32 0.1 becomes 0.1.
    digits, finite = column.astype(str), np.isfinite(column)
    return [float(d) if known else None for d, known in zip(digits, finite, strict=True)]


def _write(decoder: Decoder, task: Task, choice: Choice, options: Options) -> tuple[str, ...]:
    """Writes the indices first: an output that `--resume` finds has them."""
    wanted = [task.indices_path] if options.indices and task.indices_path else []
    wanted += [task.output] if task.output else []
    return decoder.write(choice.rows, [Path(name) for name in wanted])


def _draw(decoder: Decoder, opened: Opened, choice: Choice, path: Path) -> None:
    from farpoint.picture import before_after  # matplotlib, of an extra

    finite = np.isfinite(opened.points).all(axis=1)
    colors = decoder.colors()
    before_after(
        path,
        opened.points[finite],
        opened.points[choice.rows],
        colors=None if colors is None else colors[finite],
        sample_colors=None if colors is None else colors[choice.rows],
        radius=choice.radius,
        unit=opened.unit,
    )


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


def _as_json(task: Task, opened: Opened, choice: Choice, notes: tuple[str, ...]) -> str:
    """One object on one line; `covering_radius` may be null."""
    sample = choice.sample
    origin = None if sample is None or sample.origin is None else sample.origin.tolist()
    return json.dumps(
        {
            "input": task.source.location,
            "output": task.output,
            "picture": None if task.picture is None else str(task.picture),
            "points": len(opened.points),
            "samples": len(choice.rows),
            "covering_radius": choice.radius,
            "unit": opened.unit,
            "notes": notes,
            "origin": origin,
            "timings": None if sample is None else asdict(sample.timings),
            "request_id": "" if sample is None else sample.request_id,
        }
    )


def _as_text(task: Task, opened: Opened, choice: Choice, notes: tuple[str, ...]) -> str:
    """One line."""
    target = task.output or task.picture or task.indices_path
    line = f"{task.source.location} -> {target}: {len(choice.rows)} of {len(opened.points)} points"
    if choice.radius is not None:
        line += f", covering radius {choice.radius:.4g}"
    if choice.sample is not None:
        t = choice.sample.timings
        line += f", {t.total_ms:.1f} ms (queue {t.queue_ms:.1f}, compute {t.compute_ms:.1f}, "
        line += f"wire {t.wire_ms:.1f})"
    return line + "".join(f"; {note}" for note in notes)
