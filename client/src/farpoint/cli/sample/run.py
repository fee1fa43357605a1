"""Many files in flight, one bar for all of them."""

import os
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Protocol, TextIO

from farpoint._client import Client
from farpoint.cli.connection import Connection
from farpoint.cli.failures import explain
from farpoint.cli.sample.command import Arguments
from farpoint.cli.sample.inputs import STDIN, exists
from farpoint.cli.sample.options import Options
from farpoint.cli.sample.plan import Task, plan_tasks
from farpoint.cli.sample.work import Done, sample_file
from farpoint.errors import CloudFileError, FarpointError, InvalidArgumentError
from farpoint.io.decoder import Decoder

if TYPE_CHECKING:
    from rich.progress import Progress


class Pool(Protocol):
    """Does tasks, several at a time."""

    def run(self, tasks: Sequence[Task], bar: "Bar") -> "list[Future[Done]]":
        """Begins all of them; each that ends moves the bar."""

    def close(self) -> None:
        """Ends the tasks that run: after Ctrl-C nothing waits for the rest."""


def run(connection: Connection, arguments: Arguments) -> int:
    """Samples the files and returns how many failed; the failure of a single one is raised."""
    options = Options(**vars(arguments))
    tasks = plan_tasks(options)
    if options.ray:
        return _run_tasks(_ray_pool(tasks, options), tasks, options)
    with connection.connect(options.timeout) as client:
        return _run_tasks(ThreadPool(client, options), tasks, options)


def _ray_pool(tasks: list[Task], options: Options) -> Pool:
    if any(task.to_stdout or task.source.location == STDIN for task in tasks):
        raise InvalidArgumentError("--ray takes files, and writes files", field="ray")
    if options.sampling is not None:
        raise InvalidArgumentError("--ray goes with no --method but farthest-point", field="ray")
    if options.gpus < 0:
        raise InvalidArgumentError(f"--gpus must be 0 or more, got {options.gpus:g}", field="gpus")
    from farpoint.cli.sample.ray_pool import RayPool

    return RayPool(options)


def _run_tasks(pool: Pool, tasks: list[Task], options: Options) -> int:
    """Lines are printed in the order of the tasks, each as soon as those before it are done."""
    several = len(tasks) > 1
    if options.resume:
        tasks = _unfinished(tasks, options)
    if not tasks:
        return 0
    with ExitStack() as stack:
        stack.callback(pool.close)
        bar = stack.enter_context(_progress(len(tasks)))
        out = sys.stdout  # and not what a pool may put there
        futures = pool.run(tasks, bar)
        if not several:
            _print(futures[0].result(), out)
            return 0
        ended = zip(tasks, futures, strict=True)
        return sum(not _report(task, future, out) for task, future in ended)


def _unfinished(tasks: list[Task], options: Options) -> list[Task]:
    """The tasks of which an output is missing; outputs are never there in part."""
    left = [task for task in tasks if not all(map(exists, task.outputs(options)))]
    if len(left) < len(tasks):
        print(f"{len(tasks) - len(left)} of {len(tasks)} files were done before", file=sys.stderr)
    return left


def _report(task: Task, future: "Future[Done]", out: TextIO) -> bool:
    try:
        _print(future.result(), out)
    except FarpointError as error:
        named = isinstance(error, CloudFileError) or task.source.location in str(error)
        prefix = "" if named else f"{task.source.location}: "
        print(f"farpoint: {prefix}{explain(error)}", file=sys.stderr)
        return False
    except Exception as error:  # a bug of ours ends no batch either
        message = f"{task.source.location}: {type(error).__name__}: {error}"
        print(f"farpoint: {message}", file=sys.stderr)
        return False
    return True


def _print(done: Done, out: TextIO) -> None:
    if done.line:  # not typer.echo, which writes past the bar's own stdout
        print(done.line, file=out)


class ThreadPool:
    """Threads, each with a decoder of its own, before one server."""

    def __init__(self, client: Client, options: Options) -> None:
        self._client, self._options = client, options
        self._decoders: list[Decoder] = []
        self._idle: list[Decoder] = []  # append and pop of a list are atomic
        self._threads = ThreadPoolExecutor(options.workers)

    def run(self, tasks: Sequence[Task], bar: "Bar") -> "list[Future[Done]]":
        """As of `Pool`."""
        workers = min(self._options.workers, len(tasks))
        threads = max(1, (os.cpu_count() or 1) // workers)
        self._decoders = [Decoder(self._options.bounds, threads) for _ in range(workers)]
        self._decoders[0].start()  # while the server is asked for its limits
        self._idle = list(self._decoders)
        limit = self._client.server_info().limits.request_points
        return [self._threads.submit(self._run, task, limit, bar) for task in tasks]

    def _run(self, task: Task, limit: int, bar: "Bar") -> Done:
        decoder = self._idle.pop()
        points = 0
        try:
            done = sample_file(self._client, decoder, task, self._options, limit)
            points = done.points
            return done
        finally:
            self._idle.append(decoder)
            bar.advance(points)

    def close(self) -> None:
        """As of `Pool`."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        for decoder in self._decoders:
            decoder.close()
        self._threads.shutdown(wait=True)


class Bar:
    """Files, points and points per second on one line."""

    def __init__(self, progress: "Progress | None" = None, total: int = 0) -> None:
        self._progress = progress
        self._points = 0
        self._lock = threading.Lock()
        if progress is not None:
            self._task = progress.add_task("", total=total, points="0", rate="0")

    def advance(self, points: int) -> None:
        """One more file is done."""
        if self._progress is None:
            return
        with self._lock:
            self._points += points
            elapsed = self._progress.tasks[0].elapsed or 0.0
            rate = self._points / elapsed if elapsed else 0.0
            self._progress.update(
                self._task, advance=1, points=f"{self._points:,}", rate=f"{rate:,.0f}"
            )


@contextmanager
def _progress(total: int) -> Iterator[Bar]:
    """A bar on stderr; stdout stays as it is where it is piped."""
    if total < 2 or not sys.stderr.isatty():
        yield Bar()
        return
    from rich import progress as bars
    from rich.console import Console

    columns = (
        bars.BarColumn(),
        bars.MofNCompleteColumn(),
        bars.TextColumn("files, {task.fields[points]} points, {task.fields[rate]} points/s"),
        bars.TimeRemainingColumn(),
    )
    redirect = sys.stdout.isatty()
    with bars.Progress(*columns, console=Console(stderr=True), redirect_stdout=redirect) as shown:
        yield Bar(shown, total)
