"""Programs that run in forks of one process, which has imported torch and the server before.

The import is most of the CPU time that a server takes to start. A fork is a process like any other:
it has its own arguments, environment, standard error, id and exit status. Nothing is used before
the fork, only imported: gRPC and torch start their threads with the first call.

python -m tests.support.servers.forked    serves requests on the socket that is its standard input
"""

import atexit
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from multiprocessing.connection import wait
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
REQUEST_BYTES = 1 << 17
DESCRIPTORS = 2  # the fork's standard error, and the pipe that its id and exit status come on


class ForkedProcess:
    """A program in a fork, with what a test needs of `subprocess.Popen`.

    Args:
        command: The interpreter, which is this one, and a file or `-m` and a module; arguments.
    """

    def __init__(self, command: Sequence[str]) -> None:
        reports, report = os.pipe()
        lines, stderr = os.pipe()
        request = json.dumps([list(command[1:]), os.getcwd(), dict(os.environ)]).encode()
        assert len(request) < REQUEST_BYTES
        socket.send_fds(_parent(), [request], [stderr, report])
        os.close(stderr)
        os.close(report)
        self.stderr = os.fdopen(lines)
        self._reports = os.fdopen(reports)
        self.pid = int(self._reports.readline())
        self.returncode: int | None = None

    def poll(self) -> int | None:
        return self._status(0)

    def wait(self, timeout: float | None = None) -> int:
        status = self._status(timeout)
        if status is None:
            raise subprocess.TimeoutExpired("a forked program", timeout or 0)
        return status

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _status(self, timeout: float | None) -> int | None:
        if self.returncode is None and wait([self._reports], timeout):
            self.returncode = os.waitstatus_to_exitcode(int(self._reports.readline()))
            self._reports.close()
        return self.returncode


@cache
def _parent() -> socket.socket:
    """A socket to the process that forks, which ends with this one."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = [sys.executable, "-m", "tests.support.servers.forked"]
    process = subprocess.Popen(command, stdin=theirs, cwd=ROOT)
    theirs.close()
    atexit.register(process.wait)
    atexit.register(ours.close)
    return ours


def _serve(requests: socket.socket) -> None:
    while True:
        request, descriptors, _, _ = socket.recv_fds(requests, REQUEST_BYTES, DESCRIPTORS)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if not request:
            return
        if not os.fork():
            requests.close()
            _run_and_report(*json.loads(request), *descriptors)
            os._exit(0)
        for descriptor in descriptors:
            os.close(descriptor)


def _run_and_report(
    words: list[str], folder: str, environment: dict[str, str], stderr: int, report: int
) -> None:
    if program := os.fork():
        os.close(stderr)
        os.write(report, f"{program}\n".encode())
        os.write(report, f"{os.waitpid(program, 0)[1]}\n".encode())
        return
    os.close(report)
    os.dup2(stderr, 2)
    os.close(stderr)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.orig_argv = [sys.executable, *words]
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # which nohup has this process ignore
    if words[0] == "-m":
        sys.argv = words[1:]
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = words
        runpy.run_path(words[0], run_name="__main__")


def main() -> None:
    import farpoint_server.app.server  # noqa: F401

    _serve(socket.socket(fileno=os.dup(0)))


if __name__ == "__main__":
    main()
