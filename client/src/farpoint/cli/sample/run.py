"""All files of a command, and bars of their progress on standard error, if it is a terminal."""

import sys
from argparse import Namespace
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, as_completed
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from farpoint._default import Connection
from farpoint._rpcs.methods import Progress
from farpoint.cli import failures
from farpoint.cli.sample.options import Options
from farpoint.cli.sample.plan import Task, plan_tasks
from farpoint.cli.sample.processes import Processes
from farpoint.cli.sample.work import sample_file
from farpoint.errors import CloudFileError, FarpointError


def run(connection: Connection, given: Namespace) -> int:
    """Samples the files and returns the number of failures; raises that of a single file."""
    options = Options.of(given)
    tasks = plan_tasks(options)
    several = len(tasks) > 1
    if options.resume:
        tasks = _unfinished(tasks, options)
    if not tasks:
        return 0
    if not several:
        _run_one(connection, tasks[0], options)
        return 0
    with Processes(connection, options, min(options.jobs, len(tasks))) as processes:
        with connection.connect(options.timeout) as client:
            client.server_info()  # without a server no file is read
        return _report_all(tasks, [processes.submit(task) for task in tasks], options)


def _run_one(connection: Connection, task: Task, options: Options) -> None:
    with (
        connection.connect(options.timeout) as client,
        _upload_bar(options) as progress,
    ):
        _print(sample_file(partial(client.sample, progress=progress), task, options), options)


def _unfinished(tasks: list[Task], options: Options) -> list[Task]:
    """The tasks with a missing output; outputs are never partial."""
    left = [
        task for task in tasks if not all(Path(name).exists() for name in task.outputs(options))
    ]
    if len(left) < len(tasks):
        print(f"{len(tasks) - len(left)} of {len(tasks)} files were done before", file=sys.stderr)
    return left


def _report_all(tasks: list[Task], futures: "list[Future[str]]", options: Options) -> int:
    """Prints the lines of the tasks in their order, under a bar of those that ended; failures."""
    waiting, failed = deque(zip(tasks, futures, strict=True)), 0
    bar = _bar(options, iterable=as_completed(futures), total=len(tasks), unit="file")
    for _ in bar:
        with bar.external_write_mode():
            while waiting and waiting[0][1].done():
                failed += not _report(*waiting.popleft(), options)
    return failed


def _report(task: Task, future: "Future[str]", options: Options) -> bool:
    """Prints the line of a task, after those of the tasks before it; whether it was done."""
    source = task.source.location
    try:
        _print(future.result(), options)
        return True
    except FarpointError as error:
        failure: Exception = error
        named = isinstance(error, CloudFileError) or source in str(error)
        message = f"{'' if named else f'{source}: '}{failures.explain(error)}"
    except Exception as error:  # a bug of ours ends no batch either
        failure, message = error, f"{source}: {type(error).__name__}: {error}"
    if options.as_json:
        print(failures.as_json(failure, message, input=source))
    else:
        print(f"farpoint: {message}", file=sys.stderr)
    return False


def _print(line: str, options: Options) -> None:
    if line and not options.quiet:
        print(line)


def _bar(options: Options, **more: Any) -> Any:
    """A bar on standard error; nothing where that is no terminal, and with --quiet."""
    from tqdm import tqdm  # not loaded where no bar is needed

    return tqdm(file=sys.stderr, disable=options.quiet or None, dynamic_ncols=True, **more)


@contextmanager
def _upload_bar(options: Options) -> Iterator[Progress | None]:
    """A bar of bytes, which appears with the first call; None where none is shown."""
    bars: list[Any] = []

    def show(sent: int, total: int) -> None:
        if not bars:
            scale = {"unit": "B", "unit_scale": True, "unit_divisor": 1024}
            bars.append(_bar(options, desc="upload", total=total, **scale))
        bars[0].update(sent - bars[0].n)

    yield show if sys.stderr.isatty() and not options.quiet else None
    for bar in bars:
        bar.close()
