"""One file from reading to writing, on one thread with one decoder."""

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from farpoint._types import Array
from farpoint.cli.sample.choose import Choice, Sampler, choose, choose_in_parts
from farpoint.cli.sample.inputs import local_copy, put_remote
from farpoint.cli.sample.options import Options
from farpoint.cli.sample.plan import Task
from farpoint.cli.sample.report import render
from farpoint.errors import CloudFileError, InvalidArgumentError
from farpoint.io.decoder import Decoder, Opened
from farpoint.io.jsonl import write_rows


@dataclass(frozen=True)
class Done:
    """A file that was sampled: what to print, and how many points it had."""

    line: str
    points: int


def sample_file(
    client: Sampler, decoder: Decoder, task: Task, options: Options, limit: int
) -> Done:
    """Samples one file and writes what was asked for.

    Args:
        client: of a server, or what samples by itself.
        limit: points that it takes in one request.

    Raises:
        FarpointError: the file, an output or the server failed; the message names the file.
    """
    if task.problem is not None:
        raise CloudFileError(task.problem)
    with _naming(task), local_copy(task.source, options.read.format) as path:
        opened = decoder.open(path, options.read, limit)
        choice = _choose(client, decoder, opened, options, limit)
        if task.to_stdout:
            chosen = decoder.take(choice.rows)
            columns = {} if choice.distances is None else {"distance": choice.distances}
            places = np.arange(len(chosen))
            write_rows(sys.stdout, chosen, places, index=choice.rows, **columns)
        if task.output is not None or options.indices:
            _write(decoder, task, choice, options)
        if task.picture is not None:
            _draw(decoder, opened, choice, task.picture)
    return Done("" if task.to_stdout else render(task, opened, choice, options), opened.count)


def _choose(
    client: Sampler, decoder: Decoder, opened: Opened, options: Options, limit: int
) -> Choice:
    if opened.points is None:
        return choose_in_parts(client, decoder.chunks(), opened.count, limit, options)
    if opened.count > limit:
        return choose_in_parts(client, _slices(opened.points, limit), opened.count, limit, options)
    return choose(client, opened.points, options)


def _slices(points: Array, size: int) -> Iterator[Array]:
    for at in range(0, len(points), size):
        yield points[at : at + size]


def _write(decoder: Decoder, task: Task, choice: Choice, options: Options) -> None:
    """The indices first: a file that is there when `--resume` looks has them."""
    wanted = [task.indices_path] if options.indices and task.indices_path else []
    wanted += [task.output] if task.output else []
    local = [Path(name) for name in wanted if "://" not in name]
    if local:
        decoder.write(choice.rows, local)
    remote = [name for name in wanted if "://" in name]
    if remote:
        with tempfile.TemporaryDirectory(prefix="farpoint-") as folder:
            parts = [Path(folder) / name.rpartition("/")[2] for name in remote]
            decoder.write(choice.rows, parts)
            for part, name in zip(parts, remote, strict=True):
                put_remote(part, name)


def _draw(decoder: Decoder, opened: Opened, choice: Choice, path: Path) -> None:
    if opened.points is None:
        raise CloudFileError("a cloud that is read in parts is not drawn", path=path)
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
    """Puts the file's name before what is wrong with its points."""
    try:
        yield
    except CloudFileError:
        raise
    except InvalidArgumentError as error:
        raise InvalidArgumentError(
            f"{task.source.location}: {error.message}",
            field=error.field,
            request_id=error.request_id,
        ) from error
    except MemoryError as error:
        raise CloudFileError("does not fit in memory", path=task.source.location) from error
