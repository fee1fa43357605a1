"""The server of a soak: started, paused, killed, drained; its log and what it holds."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

READY_TIMEOUT_S = 120
# After a restart connections are made anew; until then calls may fail.
SETTLE_S = 2.0
FLAGS = (
    *("--device", "cpu", "--encoder", "default", "--processes", "2"),
    *("--http-listen", "127.0.0.1:0", "--admin-listen", "localhost:0"),
)
# So little that some calls of 64 callers are refused.
BOUNDS = ("--max-points-in-flight", "400000", "--max-request-points", "200000")
# Longer than any caller waits, so that a drain which ends with calls unanswered has lost them.
DRAIN = ("--drain-timeout-s", "90")
# Each process answers these.
FOR_ALL = ("LoadModel", "UnloadModel")
LEFT = ("farpoint_calls", "farpoint_points_in_flight", "farpoint_bytes_in_flight")


@dataclass
class Held:
    """Resources of some processes at one moment."""

    rss_mb: float
    descriptors: int
    threads: int


def held_by(pids: Iterable[int]) -> Held:
    """Read from /proc; raises OSError if one is gone, KeyError if it has just ended."""
    held = Held(0, 0, 0)
    for pid in pids:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        status = dict(line.split(":", 1) for line in lines)
        held.rss_mb += int(status["VmRSS"].split()[0]) / 1024
        held.descriptors += len(os.listdir(f"/proc/{pid}/fd"))
        held.threads += int(status["Threads"])
    return held


@dataclass
class Life:
    """From one start of the server to its end."""

    process: "subprocess.Popen[str]"
    pids: dict[int, int] = field(default_factory=dict)
    """Of the process in each place."""
    held: list[Held] = field(default_factory=list)
    last_line: dict[str, object] = field(default_factory=dict)


class SoakServer:
    """A server at one address over several lives.

    Attributes:
        ready: Its addresses.
        unanswered: Calls that processes left when they drained.
        ends: The statuses of the end of a request in the log: by its id and its index in a
            stream, -1 for the call itself.
        sample_ms: Times in the server of Sample calls.
    """

    def __init__(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{free.getsockname()[1]}"
        self.lives: list[Life] = []
        self.ready: dict[str, Any] = {}
        self.unanswered = 0
        self.ends: defaultdict[tuple[str, int], list[str]] = defaultdict(list)
        self.sample_ms: list[float] = []
        self._is_up = threading.Event()
        self._up_since = 0.0
        self._reader: threading.Thread | None = None

    @property
    def life(self) -> Life:
        return self.lives[-1]

    def start(self) -> float:
        """Seconds until it was ready."""
        begun = time.monotonic()
        command = [sys.executable, "-m", "farpoint_server", "--listen", self.address]
        command += [*FLAGS, *BOUNDS, *DRAIN, "--log-format", "json"]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        self.lives.append(Life(process))
        self._reader = threading.Thread(target=self._read, args=(self.life,), daemon=True)
        self._reader.start()
        if not self._is_up.wait(READY_TIMEOUT_S):
            raise TimeoutError(f"the server is not ready: {self.life.last_line}")
        return time.monotonic() - begun

    def interrupts(self, since: float) -> bool:
        """Whether a call that began then may have met an end or a beginning of the server."""
        return not self._is_up.is_set() or since < self._up_since + SETTLE_S

    @property
    def http_address(self) -> str:
        """Of the current life, or of the one before while there is none."""
        return str(self.ready["http_address"])

    def pause(self, place: int, seconds: float) -> None:
        """Stops a process for a while, as a machine does that swaps."""
        self._is_up.clear()
        os.kill(self.life.pids[place], signal.SIGSTOP)
        time.sleep(seconds)
        os.kill(self.life.pids[place], signal.SIGCONT)
        self._settle()

    def end_process(self, place: int, number: signal.Signals) -> None:
        """Kills or freezes a process; returns when the supervisor has replaced it."""
        self._is_up.clear()
        former = self.life.pids[place]
        os.kill(former, number)
        give_up = time.monotonic() + READY_TIMEOUT_S
        while self.life.pids[place] == former:
            if time.monotonic() > give_up:
                raise TimeoutError(f"process {place} is not replaced")
            time.sleep(0.05)
        self._settle()

    def _settle(self) -> None:
        self._up_since = time.monotonic()
        self._is_up.set()

    def kill(self) -> None:
        """SIGKILL."""
        self._is_up.clear()
        self.life.process.kill()
        self._join()

    def drain(self) -> tuple[int, int]:
        """SIGTERM; the exit status, and the calls that were left unanswered."""
        self._is_up.clear()
        self.life.process.terminate()
        status = self._join()
        return status, self.unanswered

    def look(self) -> None:
        """Notes what the processes hold."""
        if self._is_up.is_set():
            with suppress(OSError, KeyError):  # of one that has just ended
                self.life.held.append(held_by((self.life.process.pid, *self.life.pids.values())))

    def left(self) -> dict[str, float]:
        """Calls, points and bytes in flight."""
        url = f"http://{self.http_address}/metrics"
        with urllib.request.urlopen(url, timeout=60) as answer:
            lines = [line.split() for line in answer.read().decode().splitlines()]
        return {line[0]: float(line[1]) for line in lines if line[0].startswith(LEFT)}

    def stop(self) -> None:
        """Ends what still runs."""
        if self.lives and self.life.process.poll() is None:
            self.kill()

    def _join(self) -> int:
        status = self.life.process.wait(READY_TIMEOUT_S)
        if self._reader is not None:
            self._reader.join(READY_TIMEOUT_S)
        return status

    def _read(self, life: Life) -> None:
        assert life.process.stderr is not None
        with life.process.stderr as lines:
            for text in lines:
                try:
                    line = json.loads(text)
                except ValueError:
                    continue  # a line that the kill cut off
                life.last_line = line
                if line["event"] == "request" and line.get("method") not in FOR_ALL:
                    ended = line["request_id"], line.get("request_index", -1)
                    self.ends[ended].append(sys.intern(line["status"]))
                    if line.get("method") == "Sample":
                        self.sample_ms.append(line["server_ms"])
                elif line["event"] == "stopped":
                    self.unanswered += line.get("unanswered", 0)
                elif line["event"] == "process ready":
                    life.pids[line["process"]] = line["pid"]
                elif line["event"] == "ready" and "process" not in line:
                    self.ready = line
                    self._settle()
