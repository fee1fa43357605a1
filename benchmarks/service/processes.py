"""Server subprocesses: start, SIGSTOP and SIGCONT, CPU time of the process tree, stop.

A server may be many processes. Its tree is what descends from the one that was started, and what
is in its session, which still finds those whose parent has ended.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
SETTLE_SECONDS = 0.05
BARE_SERVER = str(Path(__file__).with_name("bare_server.py"))
BARE_SAMPLE = "/bare.Server/Sample"
READY_SECONDS = 60.0


def _stat(pid: str | int) -> list[str]:
    """Fields of /proc/PID/stat after the name: state, parent, group, session and so on."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def _relations() -> dict[int, tuple[int, int]]:
    """Parent and session of every process that is not a zombie."""
    relations = {}
    for entry in Path("/proc").iterdir():
        with suppress(ValueError, OSError):
            state, parent, _, session, *_ = _stat(int(entry.name))
            if state != "Z":
                relations[int(entry.name)] = int(parent), int(session)
    return relations


@dataclass(frozen=True)
class Server:
    """A process, with those it started, that serves at an address."""

    process: "subprocess.Popen[str]"
    address: str

    def tree(self) -> list[int]:
        relations = _relations()
        tree = {pid for pid, (_, session) in relations.items() if session == self.process.pid}
        while more := {p for p, (parent, _) in relations.items() if parent in tree} - tree:
            tree |= more
        return sorted(tree)

    def cpu_seconds(self) -> float:
        """Of all processes and their threads, since they began."""
        total = 0.0
        for pid in self.tree():
            with suppress(OSError):
                fields = _stat(pid)
                total += (int(fields[11]) + int(fields[12])) / TICKS
        return total

    def pause(self) -> None:
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    @contextmanager
    def awake(self) -> Iterator[None]:
        """A paused server's turn, once what it missed while it slept is done."""
        self.resume()
        time.sleep(SETTLE_SECONDS)
        try:
            yield
        finally:
            self.pause()

    def stop(self) -> None:
        """SIGTERM, ten seconds, SIGKILL to what is left."""
        self.resume()
        tree = self.tree()
        self.process.terminate()
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline and self.process.poll() is None:
            time.sleep(0.05)
        for pid in {*tree, *self.tree()} & _relations().keys():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()

    def _signal(self, number: int) -> None:
        for pid in self.tree():
            with suppress(ProcessLookupError):
                os.kill(pid, number)


@contextmanager
def serving(*program: str) -> Iterator[Server]:
    """A Python program that prints its address when it is ready.

    Raises:
        RuntimeError: it ends without.
    """
    process = subprocess.Popen(
        [sys.executable, *program],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    server = Server(process, process.stdout.readline().strip())
    try:
        if not server.address:
            raise RuntimeError(f"{' '.join(program)} ended with {process.wait()} before it served")
        yield server
    finally:
        server.stop()


@contextmanager
def running(
    command: Sequence[str], address: str, environment: Mapping[str, str], log: Path
) -> Iterator[Server]:
    """Any command that will serve at the address; what it prints goes to the log."""
    with log.open("w") as output:
        process = subprocess.Popen(
            command,
            stdout=output,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, **environment},
            start_new_session=True,
        )
    server = Server(process, address)
    try:
        yield server
    finally:
        server.stop()


@contextmanager
def serving_farpoint(*flags: str) -> Iterator[Server]:
    """farpoint-server as it is, on a CPU unless the flags say otherwise; its log goes to a file.

    Raises:
        RuntimeError: it ends, or is not ready in time.
    """
    command = [sys.executable, "-m", "farpoint_server", "--listen=127.0.0.1:0"]
    environment = {"FARPOINT_DEVICE": os.environ.get("FARPOINT_DEVICE", "cpu")}
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        with running([*command, "--log-format=json", *flags], "", environment, log) as server:
            yield replace(server, address=_ready_address(server, log))


def _ready_address(server: Server, log: Path) -> str:
    give_up = time.monotonic() + READY_SECONDS
    while server.process.poll() is None and time.monotonic() < give_up:
        for line in log.read_text().splitlines(keepends=True):
            entry = json.loads(line) if line.startswith("{") and line.endswith("\n") else {}
            if entry.get("event") == "ready" and "process" not in entry:
                return str(entry["address"])
        time.sleep(0.05)
    raise RuntimeError(f"farpoint-server is not ready: {log.read_text()[-2000:]}")
