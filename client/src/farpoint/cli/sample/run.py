"""Many files in flight."""

import os
import sys
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from farpoint._default import Connection
from farpoint.cli import failures
from farpoint.cli.arguments import SampleArguments
from farpoint.cli.sample.options import Options
from farpoint.cli.sample.plan import Task, plan_tasks
from farpoint.cli.sample.progress import FilesBar, UploadBar, is_shown
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
            progress = stack.enter_context(UploadBar()) if is_shown(quiet=options.quiet) else None
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
        self, client: "Client", tasks: Sequence[Task], progress: UploadBar | None = None
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
