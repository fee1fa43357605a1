"""A server of several processes on one GPU, in the runtime's record: one owner, no other copy."""

import json
import os
import re
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from tests.softgpu.conftest import PYTHON
from tests.support.clouds import furthest_points
from tests.support.messages import array, sample_request
from tests.support.servers.on_devices import sample_all, starting
from tests.support.servers.server_process import RunningServer, wait_until

import farpoint
from farpoint_models import weights

pytestmark = pytest.mark.skipif(
    Path(sys.prefix).resolve() != PYTHON.parents[1].resolve(), reason="`make gpu-soft` runs it"
)

RANDOM = np.random.default_rng(8)
LARGE = RANDOM.random((20_000, 3), np.float32)
# Lengths, counts and starts of a request.
TABLES_BYTES = 4096


class Recorded:
    """A server with several processes, and what each did."""

    def __init__(self, server: RunningServer, folder: Path) -> None:
        self.server, self._folder = server, folder

    def pid(self, process: int | str) -> int:
        lines = [line for line in self.server.log if line["event"] == "process ready"]
        return next(line["pid"] for line in reversed(lines) if line["process"] == process)

    @property
    def users(self) -> set[int]:
        """Processes that called CUDA at all."""
        return {int(path.stem) for path in self._folder.glob("*.json")}

    def counted(self, name: str) -> int:
        """By the runtime in the engine, a tenth of a second ago."""
        return json.loads((self._folder / f"{self.pid('engine')}.json").read_text()).get(name, 0)

    @property
    def uploads(self) -> list[tuple[str, int, int]]:
        """The kind, bytes and source of each copy to the device."""
        timeline = (self._folder / "timeline").read_text()
        found = re.findall(r"(copy to device.*), (\d+) bytes, .* <- (0x\w+)", timeline)
        return [(kind, int(size), int(source, 16)) for kind, size, source in found]

    @property
    def regions(self) -> list[range]:
        """Addresses of the front ends' memory in the engine."""
        maps = Path(f"/proc/{self.pid('engine')}/maps").read_text()
        # The runtime has a mapping of its own of what is locked, without the rest.
        found = re.findall(r"^(\w+)-(\w+) .*farpoint-calls", maps, re.M)
        return [range(int(begin, 16), int(end, 16)) for begin, end in found]

    @property
    def findings(self) -> str:
        path = self._folder / "findings"
        return path.read_text() if path.exists() else ""


@contextmanager
def recorded(folder: Path, *flags: str, **settings: object) -> Iterator[Recorded]:
    """A server with two front ends, and settings of the runtime."""
    files = {"REPORT": "%p.json", "TIMELINE": "timeline", "LOG": "findings"}
    with pytest.MonkeyPatch.context() as patch, starting(patch) as start:
        for name, value in settings.items() | {(n, folder / file) for n, file in files.items()}:
            patch.setenv(f"SOFTGPU_{name}", str(value))
        yield Recorded(start("--processes", "2", *flags), folder)


@pytest.fixture(scope="module")
def two(tmp_path_factory) -> Iterator[Recorded]:
    """Two front ends and an engine."""
    with recorded(tmp_path_factory.mktemp("record"), "--admin-listen", "127.0.0.1:0") as server:
        yield server


def test_one_process_alone_calls_cuda(two):
    """So there is one context, one allocator and one queue."""
    with farpoint.Client(two.server.address, timeout=60) as client:
        sample_all(client, 2)
    assert two.users == {two.pid("engine")}


@pytest.mark.parametrize("method", [None, farpoint.RandomSampling(seed=3)], ids=["C++", "torch"])
def test_a_cloud_is_copied_to_the_device_from_the_memory_that_the_front_end_wrote(two, method):
    """The second copy of its bytes: the first is that of the message to there."""
    with farpoint.Client(two.server.address, timeout=60) as client:
        client.sample(LARGE[:100], 3, method=method)
        begun = len(two.uploads)
        found = client.sample(LARGE, 3, method=method)
    assert method or found.indices.tolist() == furthest_points(LARGE, 3).tolist()
    wait_until(lambda: len(two.uploads) >= begun + 2)
    (first, size, source), *rest = two.uploads[begun:]
    assert size == LARGE.nbytes
    assert any(source in region for region in two.regions)
    assert sum(size for _, size, _ in rest) < TABLES_BYTES
    assert first == "copy to device"  # not "copy to device, pageable"


def test_a_model_takes_its_memory_on_the_device_once(two):
    address = two.server.ready["admin_addresses"][0]
    with farpoint.Client(two.server.address) as client, farpoint.Client(address) as admin:

        def allocated() -> int:
            (device,) = admin.memory().devices
            return device.allocated_bytes

        before, size = allocated(), weights.DEFAULT.stat().st_size
        admin.load_model("second", str(weights.DEFAULT))
        wait_until(lambda: allocated() != before)
        assert size * 0.9 < allocated() - before < size * 1.5
        assert client.encode(LARGE[:100], model="second").stages
    assert two.users == {two.pid("engine")}


def test_memory_of_a_front_end_that_is_killed_is_unlocked(two):
    assert two.counted("cudaHostRegister") == 2
    os.kill(two.pid(1), signal.SIGKILL)
    wait_until(lambda: two.counted("cudaHostUnregister") == 1)
    wait_until(lambda: two.counted("cudaHostRegister") == 3)
    with farpoint.Client(two.server.address, timeout=60) as client:
        sample_all(client)
    assert two.findings == ""


def test_memory_of_calls_that_were_given_up_is_used_again_and_spoils_no_answer(tmp_path):
    """Their uploads may still wait, on streams that wait up to 0.2 s before each piece of work."""
    clouds = [RANDOM.random((6000, 3), np.float32) for _ in range(4)]
    expected = [furthest_points(cloud, 3).tolist() for cloud in clouds]
    flags = ("--encoder", "none", "--batch-points", "13000")
    with recorded(tmp_path, *flags, SEED=3, DELAY_US=200_000) as two:
        with two.server.connected() as stub:
            calls = [stub.Sample.future(sample_request(clouds[i % 4], 3)) for i in range(40)]
            calls[0].result()
            for i, call in enumerate(calls):
                if i % 4:
                    call.cancel()
            calls += [stub.Sample.future(sample_request(clouds[i % 4], 3)) for i in range(40, 60)]
            for i, call in enumerate(calls):
                if i >= 40 or i % 4 == 0:
                    assert array(call.result().indices, "<i4").tolist() == expected[i % 4]
        assert two.server.stop() == 0
        assert two.findings == ""
