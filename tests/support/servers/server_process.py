"""A farpoint-server in another process."""

import os
import shlex
import signal
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.support.servers.forked import ForkedProcess

from farpoint.testing import PROGRAM, LocalServer
from farpoint.v1 import sampling_pb2_grpc

READY_TIMEOUT_S = 100
SLOW_POINTS, STUBBORN_POINTS = 1000, 2000  # see patched_server.py
PATCHED_SERVER = (sys.executable, str(Path(__file__).with_name("patched_server.py")))
# Another server than this checkout's: a command that takes its flags, such as `podman run ...`.
OTHER_SERVER = shlex.split(os.environ.get("FARPOINT_TEST_SERVER", ""))
DEVICE = os.environ.get("FARPOINT_TEST_DEVICE", "cpu")


def wait_until(
    condition: Callable[[], Any], about: Callable[[], object] = lambda: "it never holds"
) -> Any:
    """The first true value of a condition; an error with `about()` after a long time."""
    give_up = time.monotonic() + READY_TIMEOUT_S
    while not (value := condition()):
        assert time.monotonic() < give_up, about()
        time.sleep(0.01)
    return value


def failed_start(*flags: str) -> tuple[int, list[str]]:
    """Exit status and standard error, as lines, of a server that does not start."""
    listen = [] if "--listen" in flags else ["--listen=127.0.0.1:0"]
    server = ForkedProcess([*PROGRAM, *listen, "--log-format=json", *flags])
    with server.stderr as lines:
        return server.wait(READY_TIMEOUT_S), lines.read().splitlines()


class RunningServer(LocalServer):
    """A server of this checkout with the given flags; ready when the constructor returns.

    With `batch_s`, each batch of 1000 points or more takes that many seconds longer; with
    `failing`, some batches fail (see patched_server.py).
    """

    def __init__(self, *flags: str, batch_s: float | None = None, failing: bool = False) -> None:
        program: Sequence[str] = PROGRAM
        if failing or batch_s is not None:
            program = (*PATCHED_SERVER, *(["failing"] if failing else ["slow", str(batch_s)]))
        if OTHER_SERVER and program != PROGRAM:
            pytest.skip("needs a server with code of the tests")
        super().__init__(OTHER_SERVER or program, *flags, f"--device={DEVICE}")

    def _start(self, command: list[str]) -> Any:
        """A fork of a process that has imported torch, unless the server is another's."""
        return super()._start(command) if OTHER_SERVER else ForkedProcess(command)

    @property
    def ready(self) -> dict[str, Any]:
        """The line of the log that names the addresses."""
        return self.wait_for(lambda line: line["event"] == "ready")

    def wait_for_metric(self, name: str, wanted: Callable[[float], bool]) -> None:
        """Returns when a metric without labels is as wanted; needs the flag --http-listen."""
        series = f"{name}{{}}"
        wait_until(lambda: wanted(self.metrics()[series]), lambda: self.metrics()[series])

    def metrics(self) -> dict[str, float]:
        """Each metric's value, by `name{label=value,...}`; needs the flag --http-listen."""
        address = self.ready["http_address"]
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=60) as answer:
            families = text_string_to_metric_families(answer.read().decode())
            samples = [sample for family in families for sample in family.samples]
        return {
            f"{s.name}{{{','.join(f'{k}={v}' for k, v in sorted(s.labels.items()))}}}": s.value
            for s in samples
        }

    def resident_mib(self, which: str = "VmRSS") -> float:
        """Resident memory now, or with VmHWM its peak."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition(f"{which}:")[2].split()[0]) / 1024

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
