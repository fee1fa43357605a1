"""Many files in flight, and bars of their progress on standard error, where that is a terminal."""

import os
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import AbstractContextManager, ExitStack, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from farpoint._default import Connection
from farpoint.cli import failures
from farpoint.cli.arguments import SampleArguments
from farpoint.cli.sample.options import Options
from farpoint.cli.sample.plan import Task, plan_tasks
from farpoint.cli.sample.work import Send, sample_file
from farpoint.errors import CloudFileError, FarpointError
from farpoint.io.decoder import Decoder

if TYPE_CHECKING:
    from farpoint._client import Client


def run(connection: Connection, arguments: SampleArguments) -> int:
    """Samples the files and returns the number of failures; raises that of a single file."""
    options = Options(**vars(arguments))
    tasks = plan_tasks(options)
    several = len(tasks) > 1
    if options.resume:
        tasks = _unfinished(tasks, options)
    if not tasks:
        return 0
    with ExitStack() as stack:
        pool = ThreadPool(options, len(tasks))
        stack.callback(pool.close)
        client = stack.enter_context(connection.connect(options.timeout))
        if not several:
            progress = stack.enter_context(UploadBar()) if _is_shown(quiet=options.quiet) else None
            _print(pool.run(client, tasks, progress)[0].result(), options)
            return 0
        return _report_all(tasks, pool.run(client, tasks), options)


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
    bar = FilesBar(futures, len(tasks), quiet=options.quiet)
    for _ in bar:
        with bar.aside():
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


class ThreadPool:
    """Threads, each with its own decoder, for one server."""

    def __init__(self, options: Options, tasks: int) -> None:
        workers = min(options.workers, tasks)
        threads = max(1, (os.cpu_count() or 1) // workers)
        self._options = options
        self._decoders = [Decoder(options.bounds, threads) for _ in range(workers)]
        for decoder in self._decoders:
            decoder.start()  # while this process has neither threads nor gRPC
        self._idle = list(self._decoders)  # append and pop of a list are atomic
        self._threads = ThreadPoolExecutor(workers)

    def run(
        self, client: "Client", tasks: Sequence[Task], progress: "UploadBar | None" = None
    ) -> "list[Future[str]]":
        """Starts all tasks."""
        limit = client.server_info().limits.request_points
        send = partial(client.sample, progress=progress)
        return [self._threads.submit(self._run, send, task, limit) for task in tasks]

    def _run(self, send: Send, task: Task, limit: int) -> str:
        decoder = self._idle.pop()
        try:
            return sample_file(send, decoder, task, self._options, limit)
        finally:
            self._idle.append(decoder)

    def close(self) -> None:
        """Ends the running tasks: after Ctrl-C nothing waits for them."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        for decoder in self._decoders:
            decoder.close()
        self._threads.shutdown(wait=True)


def _is_shown(*, quiet: bool) -> bool:
    """Whether bars are shown."""
    return sys.stderr.isatty() and not quiet


def _bar(**options: Any) -> Any:
    from tqdm import tqdm  # nothing is loaded where no bar is shown

    is_sized = all(os.get_terminal_size(sys.stderr.fileno()))
    size = {"dynamic_ncols": True} if is_sized else {"ncols": 80, "nrows": 24}
    return tqdm(file=sys.stderr, **size, **options)


class FilesBar:
    """Iterates over futures as they end; a bar counts the files."""

    def __init__(self, futures: "Iterable[Future[str]]", total: int, *, quiet: bool) -> None:
        self._ended: Iterable[Future[str]] = as_completed(futures)
        self._bar: Any = None
        if _is_shown(quiet=quiet):
            self._ended = self._bar = _bar(iterable=self._ended, total=total, unit="file")

    def __iter__(self) -> "Iterator[Future[str]]":
        return iter(self._ended)

    def aside(self) -> AbstractContextManager[Any]:
        """Takes the bar off the terminal while other lines are printed."""
        return nullcontext() if self._bar is None else self._bar.external_write_mode()


class UploadBar:
    """A bar of bytes, which appears with the first call; closed with the last or at the exit."""

    def __init__(self) -> None:
        self._bar: Any = None

    def __call__(self, sent: int, total: int) -> None:
        if self._bar is None:
            scale = {"unit": "B", "unit_scale": True, "unit_divisor": 1024}
            self._bar = _bar(desc="upload", total=total, **scale)
        self._bar.update(sent - self._bar.n)
        if sent == total:
            self._bar.close()

    def __enter__(self) -> "UploadBar":
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()
