"""Small requests answered in C++: the response of the server's Python, and what is left to it."""

import random
import time

import numpy as np
import pytest
import torch
from tests.support.messages import (
    FUZZ_INPUTS,
    LIMITS,
    batch_responses,
    field,
    is_answered,
    mutated,
    read,
    sample_request,
    tensor,
    timeless,
)

from farpoint.v1 import sampling_pb2 as pb
from farpoint.v1 import tensor_pb2
from farpoint_server.codec.raw_sample import RawSample
from farpoint_server.codec.tensors import RequestLimits
from farpoint_server.kinds.sample import POINT_NS, SAMPLE_NS

# The server accepts such arrays when its engine starts.
pytestmark = pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")
GENERATOR = np.random.default_rng(0)
RETURNED = (
    *({}, {"return_points": True}, {"return_distances": True}, {"return_checksums": True}),
    {"return_points": True, "return_distances": True, "return_checksums": True},
)
NAN = np.array([[0, np.nan, 0], [0, 0, 0], [1, 1, 1], [np.inf, 2, 2], [3, 3, 3]])


def cloud(points: int, dtype: str = "f4") -> np.ndarray:
    return GENERATOR.random((points, 3)).astype(dtype)


def answers(points: np.ndarray, m: int | list[int], **fields: object) -> bool:
    return is_answered(sample_request(points, m, **fields).SerializeToString())


@pytest.mark.parametrize("points", [1, 2, 42, 43, 1024, 4999])
@pytest.mark.parametrize("returned", RETURNED, ids=str)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_the_response_is_that_of_the_servers_python(points, returned, dtype):
    sent = 1e6 + 100 * cloud(points, dtype)
    for samples in sorted({1, points // 2 or 1, points}):
        for optional in ({}, {"lengths": [points]}, {"method": 1, "nonfinite_policy": 2}):
            assert answers(sent, samples, start_indices=[points - 1], **returned, **optional)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("radius", [0.0, 0.2, 0.5, float("inf")])
@pytest.mark.parametrize("method", [0, 1, 4])
def test_a_radius_ends_the_samples(dtype, radius, method):
    fields = {"covering_radius": radius, "method": method, "return_checksums": True}
    for m in ([], 1, 100, 300):
        for returned in RETURNED:
            assert answers(cloud(300, dtype), m, **{**fields, **returned})


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_rows_that_are_not_finite_are_ignored_on_request(dtype):
    for start in range(5):
        fields = {"start_indices": [start], "return_distances": True, "return_points": True}
        for m in (1, 2, 3):
            sent = NAN.astype(dtype)
            assert answers(sent, m, nonfinite_policy=2, **fields)
            assert not answers(sent, m, **fields)
        assert not answers(NAN.astype(dtype), 4, nonfinite_policy=2, **fields)
        assert answers(NAN.astype(dtype), [], nonfinite_policy=2, covering_radius=0, **fields)


def test_equal_distances_and_the_first_row_are_as_in_python():
    lattice = np.stack(np.meshgrid(*[np.arange(6.0)] * 3), -1).reshape(-1, 3).astype("<f4")
    for points in (lattice, np.zeros((50, 3), np.float32), -0.0 * lattice):
        assert answers(points, 50, return_distances=True)


@pytest.mark.parametrize("level", ["plain", ""])
def test_checksums_are_the_same_with_and_without_the_instruction(level):
    limit = torch.ops.farpoint._cpu_simd
    limit(level)
    try:
        for m in range(1, 40):  # of an even and an odd number of words
            assert answers(cloud(40), m, return_checksums=True, return_points=True)
    finally:
        limit("")


def test_requests_of_one_batch_are_answered_as_alone():
    """Of both types, to a radius or not, with distances or not, next to one that is wrong."""
    requests = [
        sample_request(cloud(points, dtype), m, start_indices=[points - 1], **fields)
        for points, dtype, m, fields in (
            (900, "f4", 70, {}),
            (700, "f8", 700, {"return_distances": True, "return_points": True}),
            (800, "f4", 300, {"covering_radius": 0.2, "return_checksums": True}),
            (1, "f8", 1, {"return_distances": True, "covering_radius": 0}),
            (400, "f4", [], {"covering_radius": 0.5, "method": 4}),
        )
    ]
    requests.insert(2, sample_request(NAN, 1))
    requests.insert(4, sample_request(NAN, 3, nonfinite_policy=2, return_distances=True))
    raws = [request.SerializeToString() for request in requests]
    batch = [read(raw) for raw in raws]
    for raw, work, got in zip(raws, batch, batch_responses(batch), strict=True):
        alone = read(raw).inline(10**9)
        assert (got and timeless(got)) == (alone and timeless(alone))
        assert alone is None or work.samples == len(timeless(alone).indices.data) // 4


def test_the_times_are_of_this_call():
    arrived = time.monotonic() - 7
    raw = sample_request(cloud(1000), 100).SerializeToString()
    work = RawSample.read(raw, LIMITS, 1_000_000_000, arrived)
    timings = pb.SampleResponse.FromString(work.inline(10**9)).timings
    assert timings.queue_ms == 0 < timings.compute_ms < timings.server_ms
    assert 7000 <= timings.server_ms < 1000 * (time.monotonic() - arrived)


def test_a_message_of_a_stream_is_answered_like_its_request():
    request = sample_request(cloud(100), 10, return_checksums=True)
    for mode in (0, 1, 2, 7):
        streamed = pb.SampleStreamRequest(request=request, mode=mode).SerializeToString()
        got = read(streamed, is_streamed=True).inline(10**9)
        assert timeless(got) == timeless(read(request.SerializeToString()).inline(10**9))
        assert read(streamed) is None
        assert read(streamed + b"\x0a\0", is_streamed=True) is None, "two requests"
        assert read(streamed + b"\x18\1", is_streamed=True) is None, "an unknown field"
    assert read(pb.SampleStreamRequest(mode=1).SerializeToString(), is_streamed=True) is None
    for wrong in (sample_request(cloud(4), 5), pb.SampleRequest(), sample_request(NAN, 1)):
        work = read(pb.SampleStreamRequest(request=wrong).SerializeToString(), is_streamed=True)
        assert work is None or work.inline(10**9) is None


def test_a_cloud_that_takes_longer_than_its_budget_is_left_to_python():
    """Coordinates over all exponents of float32: at each scale they must be sorted again."""
    scales = np.exp2(GENERATOR.uniform(-180, 60, (20_000, 1)))
    points = (scales * GENERATOR.normal(size=(20_000, 3))).astype("f4")
    raw = sample_request(points, 64).SerializeToString()
    limits, cpu_ns = RequestLimits(1 << 20, 20_000, 1), {}
    for budget_ns in (500_000, 60_000_000_000) * 5:
        work, begun = read(raw, budget_ns, limits), time.thread_time_ns()
        is_answered = work.inline(budget_ns) is not None
        took_ns = time.thread_time_ns() - begun
        assert is_answered == (budget_ns > 10**9)
        cpu_ns[is_answered] = min(took_ns, cpu_ns.get(is_answered, took_ns))
    assert 2 * cpu_ns[False] < cpu_ns[True]


def shaped(*shape: int) -> pb.SampleRequest:
    """A request whose points have 48 bytes."""
    points = tensor_pb2.Tensor(data_type=1, shape=shape, data=bytes(48))
    return pb.SampleRequest(points=points, sample_counts=[1])


FAR = np.array([[0, 0, 0], [1e300, 0, 0]])
LEFT = {
    "nothing": pb.SampleRequest(),
    "no samples": pb.SampleRequest(points=tensor(cloud(4))),
    "NaN at the end": sample_request(NAN[[1, 2, 0], ::-1].astype("f4"), 1),
    "infinity": sample_request(np.full((2, 3), np.inf, "f4"), 1, nonfinite_policy=2),
    "infinity in float64": sample_request(np.full((2, 3), np.inf), 1, nonfinite_policy=2),
    "beyond float32": sample_request(FAR, 1),
    "two columns": sample_request(cloud(4)[:, :2], 1),
    "two columns in the bytes of three": shaped(4, 2),
    "more bytes than points": shaped(3, 3),
    "fewer bytes than points": shaped(5, 3),
    "three dimensions": shaped(4, 3, 1),
    "one dimension": sample_request(cloud(4).ravel(), 1),
    "no points": sample_request(cloud(0), 1),
    "zero samples": sample_request(cloud(4), 0),
    "zero samples to a radius": sample_request(cloud(4), 0, covering_radius=1),
    "too many samples": sample_request(cloud(4), 5),
    "a negative number": sample_request(cloud(4), -1),
    "a start beyond the cloud": sample_request(cloud(4), 1, start_indices=[4]),
    "two starts": sample_request(cloud(4), 1, start_indices=[0, 0]),
    "two counts": sample_request(cloud(4), [1, 1]),
    "two clouds": sample_request(cloud(4), 1, lengths=[2, 2]),
    "a length of zero": sample_request(cloud(4), 1, lengths=[0]),
    "another length": sample_request(cloud(4), 1, lengths=[3]),
    "a disk without a radius": sample_request(cloud(4), 1, method=4),
    "a negative radius": sample_request(cloud(4), 1, covering_radius=-1),
    "a radius that is no number": sample_request(cloud(4), 1, covering_radius=float("nan")),
    "an unknown policy": sample_request(cloud(4), 1, nonfinite_policy=3),
    "an unknown method": sample_request(cloud(4), 1, method=5),
}


@pytest.mark.parametrize("request_", LEFT.values(), ids=LEFT)
def test_other_requests_are_left_to_python(request_):
    assert not is_answered(request_.SerializeToString())


def test_fields_that_come_twice_are_left_to_python():
    raw = sample_request(cloud(4), 1).SerializeToString()
    assert read(raw) is not None
    assert read(raw + raw) is None
    assert read(raw + pb.SampleRequest(sample_counts=[1]).SerializeToString()) is None
    assert read(raw + b"\x18\x01") is None, "a count that is not packed"


def test_limits_and_long_work_are_left_to_python():
    raw = sample_request(cloud(100), 10).SerializeToString()
    cost_ns = 100 * POINT_NS + 10 * SAMPLE_NS
    assert read(raw, cost_ns).cost_ns("cpu") == cost_ns
    assert read(raw, cost_ns - 1) is None
    assert read(raw, -1) is None
    assert read(raw, limits=RequestLimits(len(raw), 100, 1)) is not None
    assert read(raw, limits=RequestLimits(len(raw), 99, 1)) is None
    assert read(raw, limits=RequestLimits(len(raw) - 1, 100, 1)) is None


def test_damaged_messages_are_left_to_python_or_answered_as_by_python():
    chance = random.Random(7)
    seeds = [
        sample_request(cloud(4), 2, lengths=[4], start_indices=[1]).SerializeToString(),
        sample_request(cloud(20), 20, return_points=True, method=1).SerializeToString(),
        sample_request(cloud(9), 1, return_distances=True, covering_radius=1).SerializeToString(),
        sample_request(cloud(5, "f8"), 1, return_checksums=True).SerializeToString(),
    ]
    answered = sum(is_answered(mutated(seeds[i % 4], chance)) for i in range(FUZZ_INPUTS))
    assert FUZZ_INPUTS // 20 < answered < FUZZ_INPUTS - FUZZ_INPUTS // 20


def test_any_numbers_are_left_to_python_or_answered_as_by_python():
    chance = random.Random(8)
    answered = 0
    for _ in range(FUZZ_INPUTS):
        n = chance.randrange(6)
        some = [[], [], [n], [n], [0], [1], [n - 1], [n + 1], [-1], [1, 1]]
        points = NAN[:n] if chance.random() < 0.2 else cloud(n)
        sent = pb.SampleRequest(
            points=tensor(points.astype(chance.choice(["f4", "f4", "f8", "f2"]))),
            lengths=chance.choice(some),
            sample_counts=chance.choice(some),
            start_indices=chance.choice(some),
            method=chance.choice([0, 0, 1, 1, 3, 4]),
            nonfinite_policy=chance.choice([0, 1, 2, 3]),
            covering_radius=chance.choice([None, None, 0.3, 0, -1, float("nan"), float("inf")]),
            return_points=chance.random() < 0.5,
            return_distances=chance.random() < 0.5,
            return_checksums=chance.random() < 0.5,
        )
        answered += is_answered(sent.SerializeToString())
    assert answered > FUZZ_INPUTS // 50


def test_every_number_but_zero_is_true():
    raw = sample_request(cloud(4), 2).SerializeToString()
    for tag in (b"\x40", b"\x48", b"\x50"):
        for value in (b"\0", b"\1", b"\2", b"\x80\x80\1"):
            assert is_answered(raw + tag + value)


@pytest.mark.parametrize(("shape", "answered"), [((4, 3), True), ((4, 3, 1), False)])
def test_fields_may_come_in_any_order(shape, answered):
    counts = pb.SampleRequest(sample_counts=[2]).SerializeToString()
    data = tensor_pb2.Tensor(data=bytes(48)).SerializeToString()
    rest = tensor_pb2.Tensor(data_type=1, shape=shape).SerializeToString()
    assert is_answered(counts + field(1, data + rest)) is answered


def test_a_response_that_does_not_fit_its_buffer_is_left_to_python_and_never_written_beyond():
    raw = sample_request(cloud(100), 50, return_points=True).SerializeToString()
    for room in (0, 1, 2, 100, 500, 800):
        work = RawSample.read(raw, LIMITS, 10**9, time.monotonic())
        work._request.response_bytes = room
        assert work.inline(10**9) is None
