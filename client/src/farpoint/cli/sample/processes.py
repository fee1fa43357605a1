"""Processes that each sample one file after the other: a crash of a reader ends one of them."""

import multiprocessing
import os
import signal
import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from farpoint._default import Connection
from farpoint.cli.sample.options import Options
from farpoint.cli.sample.plan import Task
from farpoint.cli.sample.work import sample_file
from farpoint.errors import CloudFileError


class Processes:
    """Processes for the files of one command; as a context manager it ends them."""

    def __init__(self, connection: Connection, options: Options, count: int) -> None:
        import farpoint._client  # noqa: F401 - which the forks share

        self._idle = [_Process(connection, options) for _ in range(count)]
        self._threads = ThreadPoolExecutor(count)

    def submit(self, task: Task) -> "Future[str]":
        """Samples a file; the result is its line."""
        return self._threads.submit(self._run, task)

    def _run(self, task: Task) -> str:
        process = self._idle.pop()  # pop and append of a list are atomic
        try:
            return process.sample(task)
        finally:
            self._idle.append(process)

    def __enter__(self) -> "Processes":
        return self

    def __exit__(self, *_: object) -> None:
        """Ends the running tasks: after Ctrl-C nothing waits for them."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        for child in multiprocessing.active_children():
            child.terminate()
        self._threads.shutdown(wait=True)


class _Process:
    """One process; the file after one that crashes it has another."""

    def __init__(self, connection: Connection, options: Options) -> None:
        self._arguments = connection, options
        self._start()

    def _start(self) -> None:
        """Forks, which takes no time, if there are no threads; else starts Python anew."""
        may_fork = sys.platform == "linux" and threading.active_count() == 1
        anew = "spawn" if sys.platform == "win32" else "forkserver"
        context: Any = multiprocessing.get_context("fork" if may_fork else anew)
        context.set_forkserver_preload([__name__, "farpoint._client"])
        self._pipe, end = context.Pipe()
        arguments = (end, self._pipe, *self._arguments)
        self._child = context.Process(target=_serve, args=arguments, daemon=True)
        self._child.start()
        end.close()

    def sample(self, task: Task) -> str:
        if not self._child.is_alive():  # the last file crashed it
            self._start()
        try:
            self._pipe.send(task)
            answer: str | Exception = self._pipe.recv()
        except (EOFError, OSError) as error:
            self._child.join()
            code = self._child.exitcode
            ended = signal.Signals(-code).name if code < 0 else f"status {code}"
            message = f"the process that read it crashed ({ended})"
            raise CloudFileError(message, path=task.source.location) from error
        if isinstance(answer, Exception):
            raise answer
        return answer


def _serve(pipe: Any, parents: Any, connection: Connection, options: Options) -> None:
    """Answers tasks with lines or exceptions until the parent ends.

    Args:
        pipe: connection for tasks and answers.
        parents: the parent's end of it, which a forked child has too.
        connection: the server's.
        options: of the command.
    """
    parents.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # which leaves no part of a file
    for descriptor in (1, 2):  # libraries print why they crash
        os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)
    with connection.connect(options.timeout) as client:
        while True:
            try:
                task = pipe.recv()
            except EOFError:
                return
            answer: str | Exception
            try:
                answer = sample_file(client.sample, task, options)
            except Exception as error:
                answer = error
            pipe.send(answer)
