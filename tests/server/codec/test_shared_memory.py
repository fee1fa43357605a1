"""Shared memory of callers: accepted regions, and reads from them."""

import errno
import mmap
import os

import numpy as np
import pytest
from tests.support.messages import MemoryObjects

from farpoint.v1 import packed_cloud_pb2, shared_memory_pb2, tensor_pb2
from farpoint.v1 import sampling_pb2 as pb
from farpoint_server.codec.coordinates import decode_sample_request
from farpoint_server.codec.sample_request import SampleMessage, parse_sample_request
from farpoint_server.codec.shared_memory import Regions
from farpoint_server.codec.tensors import RequestLimits
from farpoint_server.compute.work import Outcome
from farpoint_server.errors import InvalidRequestError, OverloadedError
from farpoint_server.kinds.sample import Samples, SampleWork
from farpoint_server.services.pipeline import Pipeline, sample_call
from farpoint_server.transport.admission import Admission

SIZE = 8192
CLOUD = np.arange(60, dtype=np.float32).reshape(20, 3)
LIMITS = RequestLimits(message_bytes=1 << 20, points=10_000, clouds=5)
Range = shared_memory_pb2.SharedMemoryRange


@pytest.fixture
def regions() -> Regions:
    return Regions(max_bytes=4 * SIZE, max_read_bytes=2 * SIZE)


@pytest.fixture
def made():
    with MemoryObjects() as make:
        yield make


def place(name: bytes, offset: int = 0) -> shared_memory_pb2.SharedMemoryRange:
    return Range(region=name, offset=offset)


def tensor(name: bytes, offset: int, values: np.ndarray = CLOUD) -> tensor_pb2.Tensor:
    where = place(name, offset)
    return tensor_pb2.Tensor(data_type=1, shape=values.shape, shared_memory=where)


def message(points: tensor_pb2.Tensor, **fields) -> SampleMessage:
    request = pb.SampleRequest(points=points, sample_counts=[1], **fields)
    return SampleMessage(request, None, request.ByteSize())


def test_a_removed_region_is_not_found_and_stays_mapped_while_it_is_held(regions, made):
    memory = made(SIZE)
    os.pwrite(memory, b"cloud", 0)
    name = regions.add(memory)
    held = regions.find(place(name), 5, "points")
    regions.remove(name)
    assert regions.size == 0
    with pytest.raises(InvalidRequestError, match="whose connection is open"):
        regions.find(place(name), 5, "points")
    assert held.tobytes() == b"cloud"
    assert _mapped() == 1
    del held
    assert _mapped() == 0


def _mapped() -> int:
    with open("/proc/self/maps") as maps:
        return sum("memfd:test" in line for line in maps)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sealed": False}, "expected a memfd with F_SEAL_SHRINK"),
        ({"size": 0}, "expected a memfd of at least one byte"),
        ({"size": 4 * SIZE + 1}, f"expected at most {4 * SIZE} bytes"),
        ({"size": 0, "flags": getattr(os, "MFD_HUGETLB", 0)}, "of ordinary pages"),
    ],
)
def test_memory_that_could_end_the_server_is_not_taken(regions, made, options, message):
    with pytest.raises(InvalidRequestError, match=message):
        regions.add(made(**{"size": SIZE, **options}))
    assert regions.size == _mapped() == 0


def test_other_files_are_not_taken(regions, tmp_path):
    (tmp_path / "file").write_bytes(bytes(SIZE))
    with (
        (tmp_path / "file").open("rb") as file,
        pytest.raises(InvalidRequestError, match="expected a memfd, got another file"),
    ):
        regions.add(file.fileno())


def test_beyond_the_limit_of_all_regions_a_caller_has_to_wait(regions, made):
    name = regions.add(made(3 * SIZE))
    with pytest.raises(OverloadedError, match=f"shares {3 * SIZE} bytes of at most {4 * SIZE}"):
        regions.add(made(2 * SIZE))
    regions.remove(name)
    regions.add(made(4 * SIZE))


@pytest.mark.parametrize(
    ("change", "field", "text"),
    [
        *(
            ({"region": name}, ".region", "whose connection is open")
            for name in (b"", b"x", bytes(16), bytes(1000))
        ),
        *(
            ({"offset": offset}, ".offset", f"240 bytes within the {SIZE} of the region")
            for offset in (SIZE - 239, SIZE, 2**64 - 1, 2**64 - 240)
        ),
        (CLOUD.tobytes(), "", "expected nothing but data"),
        (None, "", "expected data itself in this call"),
    ],
)
def test_what_is_not_within_a_region_of_the_caller_is_refused(regions, made, change, field, text):
    points = tensor(regions.add(made(SIZE)), 0)
    if isinstance(change, dict):
        for name, value in change.items():
            setattr(points.shared_memory, name, value)
    elif change:
        points.data = change
    with pytest.raises(InvalidRequestError, match=text) as caught:
        parse_sample_request(message(points), LIMITS, regions if change else None)
    assert caught.value.field == f"points.shared_memory{field}"


def test_a_tensor_that_is_too_large_to_be_copied_is_refused(regions, made):
    name = regions.add(made(3 * SIZE))
    with pytest.raises(InvalidRequestError) as caught:
        parse_sample_request(message(tensor(name, 0, np.empty((2000, 3)))), LIMITS, regions)
    assert caught.value.field == "points.shape"


@pytest.mark.parametrize("offset", [0, 1, 4096])
def test_what_was_checked_is_what_is_used(regions, made, offset):
    """Also at an offset at which the kernels could not read."""
    memory = made(SIZE)
    os.pwrite(memory, CLOUD.tobytes(), offset)
    parsed = parse_sample_request(message(tensor(regions.add(memory), offset)), LIMITS, regions)
    decoded = decode_sample_request(parsed)
    os.pwrite(memory, np.full_like(CLOUD, np.nan).tobytes(), offset)
    np.testing.assert_array_equal(decoded.work.clouds.points, CLOUD)
    np.testing.assert_array_equal(decoded.request.points.array(), CLOUD)
    assert decoded.request.points.owned() is decoded.request.points  # it needs no other copy


def test_attributes_may_be_shared_too_and_both_are_counted(regions, made):
    memory = made(SIZE)
    os.pwrite(memory, CLOUD.tobytes(), 0)
    os.pwrite(memory, np.arange(20, dtype="<f4").tobytes(), 4000)
    name = regions.add(memory)
    height = tensor_pb2.Attribute(name="height", values=tensor(name, 4000, np.empty(20)))
    parsed = parse_sample_request(message(tensor(name, 0), attributes=[height]), LIMITS, regions)
    assert parsed.shared_bytes == 240 + 80
    owned = decode_sample_request(parsed).request
    assert owned.shared_bytes == 0
    np.testing.assert_array_equal(owned.attributes[0][1].array(), np.arange(20))


def test_a_packed_cloud_may_be_shared_too_and_is_copied_once_it_is_checked(regions, made):
    memory = made(SIZE)
    os.pwrite(memory, CLOUD.tobytes(), 8)
    cloud = packed_cloud_pb2.PackedCloud(
        fields=[{"name": n, "offset": 4 * i, "data_type": 1} for i, n in enumerate("xyz")],
        shared_memory=place(regions.add(memory), 8),
        **{"width": 20, "height": 1, "point_step": 12},
    )
    sent = pb.SampleRequest(packed_cloud=cloud, sample_counts=[1])
    parsed = parse_sample_request(SampleMessage(sent, None, 100), LIMITS, regions)
    assert parsed.shared_bytes == 240
    decoded = decode_sample_request(parsed)
    os.pwrite(memory, np.full_like(CLOUD, np.nan).tobytes(), 8)
    np.testing.assert_array_equal(decoded.request.points.array(), CLOUD)
    with pytest.raises(InvalidRequestError, match="expected data itself in this call"):
        parse_sample_request(SampleMessage(sent, None, 100), LIMITS)
    with pytest.raises(InvalidRequestError, match="expected nothing but data"):
        parse_sample_request(SampleMessage(sent, b"data", 100), LIMITS, regions)


def test_memory_that_cannot_be_mapped_now_is_an_overload(regions, made, monkeypatch):
    def fail(*_, **__):
        raise OSError(errno.ENOMEM, "no memory")

    monkeypatch.setattr(mmap, "mmap", fail)
    with pytest.raises(OverloadedError, match="cannot be mapped: no memory"):
        regions.add(made(SIZE))


async def test_what_a_request_refers_to_counts_in_flight(regions, made):
    admission = Admission(max_points=100, max_bytes=1000)
    held = []

    class Compute:
        is_bounded = False

        async def run(self, work: SampleWork, timeout_s: float | None) -> Outcome[Samples]:
            held.append((work.point_count, admission.points, admission.bytes, timeout_s))
            return Outcome(Samples(np.zeros(1, np.int32), None), 0, 0)

    pipeline = Pipeline(LIMITS, admission, None, Compute(), None, regions)
    sent = message(tensor(regions.add(made(SIZE)), 0))
    request = parse_sample_request(sent, LIMITS, pipeline.regions)
    await pipeline.run(sample_call(request, lambda *_: []), 1.0)
    assert held == [(20, 20, sent.size + 240, 1.0)]
    assert (admission.points, admission.bytes) == (0, 0)


def test_a_mapping_is_read_only(regions, made):
    found = regions.find(place(regions.add(made(SIZE))), SIZE, "points")
    assert found.readonly
    assert isinstance(found.obj, mmap.mmap)
