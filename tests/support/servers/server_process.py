"""A farpoint-server in a process of its own."""

import json
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from prometheus_client.parser import text_string_to_metric_families

from farpoint.v1 import sampling_pb2_grpc

READY_TIMEOUT_S = 100
SLOW_POINTS, STUBBORN_POINTS = 1000, 2000  # see slow_server.py
SLOW_SERVER = str(Path(__file__).with_name("slow_server.py"))
FAILING_SERVER = str(Path(__file__).with_name("failing_server.py"))
# Another server than this checkout's: a command that takes its flags, such as `podman run ...`.
OTHER_SERVER = shlex.split(os.environ.get("FARPOINT_TEST_SERVER", ""))
DEVICE = os.environ.get("FARPOINT_TEST_DEVICE", "cpu")


class RunningServer:
    """Started with the given flags; ready when the constructor returns.

    `log` grows with each line that the server writes. With `batch_s`, each batch of 1000 points
    or more takes that many seconds longer (see slow_server.py); with `failing`, some batches fail
    (see failing_server.py).
    """

    def __init__(self, *flags: str, batch_s: float | None = None, failing: bool = False) -> None:
        program = ["-m", "farpoint_server"] if batch_s is None else [SLOW_SERVER, str(batch_s)]
        program = [FAILING_SERVER] if failing else program
        if OTHER_SERVER and (failing or batch_s is not None):
            pytest.skip("needs a server with code of the tests")
        command = [*(OTHER_SERVER or [sys.executable, *program]), "--listen", "127.0.0.1:0", *flags]
        command += ["--device", DEVICE, "--log-format", "json"]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        self.log: list[dict[str, Any]] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.address = self.wait_for(lambda line: line["event"] == "ready")["address"]

    def wait_for(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The first log line that is wanted, also if it is still to come."""
        give_up = time.monotonic() + READY_TIMEOUT_S
        while time.monotonic() < give_up:
            for line in list(self.log):
                if wanted(line):
                    return line
            assert self._reader.is_alive(), f"the server ended: {self.log}"
            time.sleep(0.01)
        raise AssertionError(f"no such line in {self.log}")

    def wait_for_metric(self, name: str, wanted: Callable[[float], bool]) -> None:
        """Returns when a metric without labels is as wanted; needs the flag --http-listen."""
        give_up = time.monotonic() + READY_TIMEOUT_S
        while not wanted(value := self.metrics()[f"{name}{{}}"]):
            assert time.monotonic() < give_up, f"{name} is {value}"
            time.sleep(0.01)

    def metrics(self) -> dict[str, float]:
        """Each metric's value, by `name{label=value,...}`; needs the flag --http-listen."""
        address = self.wait_for(lambda line: line["event"] == "ready")["http_address"]
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=60) as answer:
            families = text_string_to_metric_families(answer.read().decode())
            samples = [sample for family in families for sample in family.samples]
        return {
            f"{s.name}{{{','.join(f'{k}={v}' for k, v in sorted(s.labels.items()))}}}": s.value
            for s in samples
        }

    @contextmanager
    def connected(self) -> Iterator[sampling_pb2_grpc.SamplingServiceStub]:
        """A raw stub on a channel that is up, so that what is sent arrives at once.

        It has a connection of its own: gRPC would share one among the channels of a process.
        """
        options = (("grpc.use_local_subchannel_pool", 1),)
        with grpc.insecure_channel(self.address, options=options) as channel:
            grpc.channel_ready_future(channel).result(READY_TIMEOUT_S)
            yield sampling_pb2_grpc.SamplingServiceStub(channel)

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def wait(self) -> int:
        """The exit status, with all of the log read."""
        status = self.process.wait(30)
        self._reader.join(10)
        return status

    def stop(self) -> int:
        if self.process.poll() is None:
            self.signal(signal.SIGTERM)
        return self.wait()

    def _read(self) -> None:
        with self.process.stderr as lines:
            for line in lines:
                self.log.append(json.loads(line))
