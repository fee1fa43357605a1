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
from dataclasses import dataclass, field
from pathlib import Path

READY_TIMEOUT_S = 120
# After a restart connections are made anew; until then calls may fail.
SETTLE_S = 2.0
FLAGS = ("--device", "cpu", "--encoder", "default", "--http-listen", "127.0.0.1:0")
# So little that some calls of 64 callers are refused.
BOUNDS = ("--max-points-in-flight", "400000", "--max-request-points", "200000")
# Longer than any caller waits, so that a drain which ends with calls unanswered has lost them.
DRAIN = ("--drain-timeout-s", "90")
LEFT = ("farpoint_calls", "farpoint_points_in_flight", "farpoint_bytes_in_flight")


@dataclass
class Held:
    """What a process held at one moment."""

    rss_mb: float
    descriptors: int
    threads: int


def held_by(pid: int) -> Held:
    """Read from /proc; raises OSError if the process is gone."""
    status = dict(
        line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines()
    )
    return Held(
        int(status["VmRSS"].split()[0]) / 1024,
        len(os.listdir(f"/proc/{pid}/fd")),
        int(status["Threads"]),
    )


@dataclass
class Life:
    """From one start of the server to its end."""

    process: "subprocess.Popen[str]"
    ready: dict[str, str] = field(default_factory=dict)
    held: list[Held] = field(default_factory=list)
    last_line: dict[str, object] = field(default_factory=dict)


class SoakServer:
    """A server at one address over several lives.

    Attributes:
        ends: The statuses that the log says a request ended with: by its id and its index in a
            stream, -1 for the call itself.
    """

    def __init__(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{free.getsockname()[1]}"
        self.lives: list[Life] = []
        self.ends: defaultdict[tuple[str, int], list[str]] = defaultdict(list)
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

    def pause(self, seconds: float) -> None:
        """Stops the process for a while, as a machine does that swaps."""
        self.life.process.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        self.life.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL."""
        self._is_up.clear()
        self.life.process.kill()
        self._join()

    def drain(self) -> tuple[int, object]:
        """SIGTERM; the exit status, and the calls it left unanswered."""
        self._is_up.clear()
        self.life.process.terminate()
        status = self._join()
        return status, self.life.last_line.get("unanswered")

    def look(self) -> None:
        """Notes what the process holds."""
        if self._is_up.is_set():
            self.life.held.append(held_by(self.life.process.pid))

    @property
    def doubled(self) -> int:
        """Ends of requests that had ended before."""
        return sum(len(statuses) - 1 for statuses in self.ends.values())

    def left(self) -> dict[str, float]:
        """Calls, points and bytes in flight."""
        url = f"http://{self.life.ready['http_address']}/metrics"
        with urllib.request.urlopen(url, timeout=60) as answer:
            lines = [line.split() for line in answer.read().decode().splitlines()]
        return {line[0]: float(line[1]) for line in lines if line[0] in LEFT}

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
                if line["event"] == "request" and "request_id" in line:
                    ended = line["request_id"], line.get("request_index", -1)
                    self.ends[ended].append(sys.intern(line["status"]))
                elif line["event"] == "ready":
                    life.ready = line
                    self._up_since = time.monotonic()
                    self._is_up.set()
