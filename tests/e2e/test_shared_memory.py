"""Clouds in shared memory, through the client and a server process, until either is killed."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import grpc
import numpy as np
import pytest
from tests.support.servers.server_process import RunningServer, wait_until

import farpoint
from farpoint._connection.call import CallContext
from farpoint._connection.shared_memory import Lease
from farpoint.v1 import sampling_pb2 as pb
from farpoint.v1 import shared_memory_pb2, tensor_pb2

CALLER = """
import sys, numpy as np, farpoint
with farpoint.Client(sys.argv[1], shared_memory=sys.argv[2]) as client:
    cloud = np.random.default_rng(0).normal(size=(100_000, 3)).astype(np.float32)
    while True:
        client.sample(cloud, 1)
        print("sampled", flush=True)
"""
CLOUD = np.random.default_rng(5).normal(size=(30_000, 3)).astype(np.float32)
LIMIT = 16 << 20


class Sharing:
    """A server, and where it takes memory."""

    def __init__(self, folder: Path) -> None:
        self.target, self.address = f"unix:{folder}/server", f"unix:{folder}/memory"
        self.server = RunningServer(
            *("--listen", self.target, "--shared-memory-listen", self.address),
            *("--max-shared-memory-bytes", str(LIMIT)),
        )

    def client(self, **options) -> farpoint.Client:
        return farpoint.Client(self.target, shared_memory=self.address, **options)

    def regions(self) -> int:
        """That the server has mapped."""
        maps = Path(f"/proc/{self.server.process.pid}/maps").read_text()
        return maps.count("memfd:farpoint")

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.server.process.pid}/fd"))

    def wait_for_regions(self, count: int) -> None:
        wait_until(lambda: self.regions() == count, self.regions)


@pytest.fixture(scope="module")
def sharing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sharing]:
    sharing = Sharing(tmp_path_factory.mktemp("sharing"))
    yield sharing
    assert sharing.server.stop() == 0
    assert not Path(sharing.address.removeprefix("unix:")).exists()


@pytest.fixture
def client(sharing) -> Iterator[farpoint.Client]:
    with sharing.client() as client:
        yield client
    sharing.wait_for_regions(0)


@pytest.fixture
def inline(sharing) -> Iterator[farpoint.Client]:
    with farpoint.Client(sharing.target) as client:
        yield client


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ">f4", np.int16])
def test_samples_are_those_of_a_cloud_that_is_sent(sharing, client, inline, dtype):
    cloud = (CLOUD * 100).astype(dtype)
    shared, sent = client.sample(cloud, 64), inline.sample(cloud, 64)
    assert sharing.regions() == 1
    np.testing.assert_array_equal(shared.indices, sent.indices)
    np.testing.assert_array_equal(shared.distances, sent.distances)
    np.testing.assert_array_equal(shared.points, sent.points)
    clouds = [cloud[7 * i :][:: 1 + i % 2] for i in range(3)]  # needs a larger region
    for shared, sent in zip(client.sample(clouds, 9), inline.sample(clouds, 9), strict=True):
        np.testing.assert_array_equal(shared.indices, sent.indices)


def test_a_caller_that_is_killed_during_a_call_leaves_nothing(sharing, client):
    before = sharing.descriptors()
    command = [sys.executable, "-c", CALLER, sharing.target, sharing.address]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as caller:
        assert caller.stdout.readline() == "sampled\n"
        sharing.wait_for_regions(1)
        caller.kill()
    sharing.wait_for_regions(0)
    wait_until(lambda: sharing.descriptors() <= before, sharing.descriptors)
    assert len(client.sample(CLOUD, 5)) == 5


def test_memory_of_all_callers_is_limited(sharing, client):
    client.sample(np.zeros((LIMIT // 20, 3), np.float32), 1)
    with sharing.client() as other:
        with pytest.raises(farpoint.ResourceExhaustedError, match="no room") as caught:
            other.sample(np.zeros((LIMIT // 20, 3), np.float32), 1)
        assert caught.value.retry_after_s > 0
        assert len(other.sample(CLOUD[:100], 1)) == 1


def test_a_stream_accepts_ranges_and_other_calls_refuse_them(sharing, client, inline):
    with Lease(client._memory, CallContext(None)) as lease, sharing.server.connected() as stub:
        place = shared_memory_pb2.SharedMemoryRange(region=lease.share([CLOUD]))
        points = tensor_pb2.Tensor(data_type=1, shape=CLOUD.shape, shared_memory=place)
        request = pb.SampleRequest(points=points, sample_counts=[8])
        [answer] = stub.SampleStream(iter([pb.SampleStreamRequest(request=request)]))
        indices = np.frombuffer(answer.response.indices.data, "<i4")
        np.testing.assert_array_equal(indices, inline.sample(CLOUD, 8).indices)
        body = [pb.SampleLargeRequest(request=request)]
        body += [pb.SampleLargeRequest(points_data=CLOUD.tobytes())]
        for call in (
            lambda: stub.Encode(pb.EncodeRequest(points=points)),
            lambda: stub.SampleLarge(iter(body)),
        ):
            with pytest.raises(grpc.RpcError) as caught:
                call()
            assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
            assert "points.shared_memory" in caught.value.details()
