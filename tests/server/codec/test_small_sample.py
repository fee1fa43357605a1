"""Small requests answered in C++: the response of the server's Python, and what is left to it."""

import random
import time

import numpy as np
import pytest
from tests.support.messages import FUZZ_INPUTS, field, mutated, sample_request, tensor

from farpoint.v1 import sampling_pb2 as pb
from farpoint.v1 import tensor_pb2
from farpoint.v1.packed_cloud_pb2 import PackedCloud
from farpoint_server.codec.coordinates import decode_sample_request
from farpoint_server.codec.sample_request import parse_sample_request, read_sample_message
from farpoint_server.codec.sample_response import serialize_sample_response
from farpoint_server.codec.small_sample import SmallSample
from farpoint_server.codec.tensors import RequestLimits
from farpoint_server.compute.work import Outcome
from farpoint_server.errors import InvalidRequestError
from farpoint_server.kinds.sample import POINT_NS, SAMPLE_NS

# The server accepts such arrays when its engine starts.
pytestmark = pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")
LIMITS = RequestLimits(message_bytes=1 << 20, points=5000, clouds=9)
GENERATOR = np.random.default_rng(0)


def cloud(points: int) -> np.ndarray:
    return GENERATOR.random((points, 3), np.float32)


def read(raw: bytes, most_ns: int = 10_000_000, limits: RequestLimits = LIMITS):
    return SmallSample.read(raw, limits, most_ns, time.monotonic())


def python_answer(raw: bytes) -> pb.SampleResponse:
    """The response of the way that every request can take, without its times."""
    parsed = parse_sample_request(read_sample_message(raw, LIMITS.clouds), LIMITS)
    decoded = decode_sample_request(parsed)
    samples = decoded.work.inline()
    return timeless(serialize_sample_response(0.0, decoded, Outcome(samples, 0, 0)))


def timeless(serialized: bytes) -> pb.SampleResponse:
    response = pb.SampleResponse.FromString(serialized)
    response.ClearField("timings")
    return response


@pytest.mark.parametrize("points", [1, 2, 42, 43, 1024, 4999])
@pytest.mark.parametrize("returned", [(), ("points",), ("distances",), ("points", "distances")])
def test_the_response_is_that_of_the_servers_python(points, returned):
    fields = {f"return_{name}": True for name in returned}
    for samples in sorted({1, points // 2 or 1, points}):
        for optional in ({}, {"lengths": [points]}, {"method": 1, "nonfinite_policy": 2}):
            sent = sample_request(
                cloud(points), samples, start_indices=[points - 1], **fields, **optional
            )
            work = read(sent.SerializeToString())
            assert (work.point_count, work.samples) == (points, samples)
            got = work.inline()
            assert timeless(got) == python_answer(sent.SerializeToString())


def test_equal_distances_and_the_first_row_are_as_in_python():
    lattice = np.stack(np.meshgrid(*[np.arange(6.0)] * 3), -1).reshape(-1, 3).astype("<f4")
    for points in (lattice, np.zeros((50, 3), np.float32), -0.0 * lattice):
        raw = sample_request(points, 50, return_distances=True).SerializeToString()
        assert timeless(read(raw).inline()) == python_answer(raw)


def test_the_times_are_of_this_call():
    arrived = time.monotonic() - 7
    raw = sample_request(cloud(1000), 100).SerializeToString()
    answer = SmallSample.read(raw, LIMITS, 10_000_000, arrived).inline()
    timings = pb.SampleResponse.FromString(answer).timings
    assert timings.queue_ms == 0 < timings.compute_ms < timings.server_ms
    assert 7000 <= timings.server_ms < 1000 * (time.monotonic() - arrived)


def shaped(*shape: int) -> pb.SampleRequest:
    """A request whose points have 48 bytes."""
    points = tensor_pb2.Tensor(data_type=1, shape=shape, data=bytes(48))
    return pb.SampleRequest(points=points, sample_counts=[1])


NAN = np.array([[0, 0, 0], [0, np.nan, 0], [1, 1, 1]], np.float32)
LEFT = {
    "nothing": pb.SampleRequest(),
    "no samples": pb.SampleRequest(points=tensor(cloud(4))),
    "NaN": sample_request(NAN, 1),
    "NaN at the end": sample_request(NAN.ravel()[[0, 1, 2, 3, 5, 4]].reshape(2, 3), 1),
    "infinity": sample_request(np.full((2, 3), np.inf, "f4"), 1, nonfinite_policy=2),
    "float64": sample_request(cloud(4).astype(np.float64), 1),
    "two columns": sample_request(cloud(4)[:, :2], 1),
    "two columns in the bytes of three": shaped(4, 2),
    "more bytes than points": shaped(3, 3),
    "fewer bytes than points": shaped(5, 3),
    "three dimensions": shaped(4, 3, 1),
    "one dimension": sample_request(cloud(4).ravel(), 1),
    "no points": sample_request(cloud(0), 1),
    "zero samples": sample_request(cloud(4), 0),
    "too many samples": sample_request(cloud(4), 5),
    "a negative number": sample_request(cloud(4), -1),
    "a start beyond the cloud": sample_request(cloud(4), 1, start_indices=[4]),
    "two starts": sample_request(cloud(4), 1, start_indices=[0, 0]),
    "two counts": sample_request(cloud(4), [1, 1]),
    "two clouds": sample_request(cloud(4), 1, lengths=[2, 2]),
    "a length of zero": sample_request(cloud(4), 1, lengths=[0]),
    "another length": sample_request(cloud(4), 1, lengths=[3]),
    "random rows": sample_request(cloud(4), 1, method=3),
    "an unknown policy": sample_request(cloud(4), 1, nonfinite_policy=3),
    "a radius": sample_request(cloud(4), 1, covering_radius=0.5),
    "checksums": sample_request(cloud(4), 1, return_checksums=True),
    "seeds": sample_request(cloud(4), 1, seeds=[1]),
    "attributes": sample_request(
        cloud(4), 1, attributes=[tensor_pb2.Attribute(name="a", values=tensor(cloud(4)))]
    ),
    "records": pb.SampleRequest(packed_cloud=PackedCloud(), sample_counts=[1]),
    "shared memory": pb.SampleRequest(
        points=tensor_pb2.Tensor(data_type=1, shape=[4, 3], shared_memory={"region": b"r"}),
        sample_counts=[1],
    ),
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


def is_answered(raw: bytes) -> bool:
    """Whether C++ answers a message, which it must do as Python does."""
    work = read(raw)
    try:
        answer = work.inline() if work else None
    except ValueError:
        answer = None
    if answer is None:
        return False
    try:
        assert timeless(answer) == python_answer(raw), raw
    except InvalidRequestError as error:
        pytest.fail(f"a wrong message was answered: {error}: {raw!r}")
    return True


def test_damaged_messages_are_left_to_python_or_answered_as_by_python():
    chance = random.Random(7)
    seeds = [
        sample_request(cloud(4), 2, lengths=[4], start_indices=[1]).SerializeToString(),
        sample_request(cloud(20), 20, return_points=True, method=1).SerializeToString(),
        sample_request(cloud(9), 1, return_distances=True).SerializeToString(),
    ]
    answered = sum(is_answered(mutated(seeds[i % 3], chance)) for i in range(FUZZ_INPUTS))
    assert FUZZ_INPUTS // 20 < answered < FUZZ_INPUTS - FUZZ_INPUTS // 20


def test_any_numbers_are_left_to_python_or_answered_as_by_python():
    chance = random.Random(8)
    answered = 0
    for _ in range(FUZZ_INPUTS):
        n = chance.randrange(6)
        some = [[], [], [n], [n], [0], [1], [n - 1], [n + 1], [-1], [1, 1]]
        sent = pb.SampleRequest(
            points=tensor(cloud(n)),
            lengths=chance.choice(some),
            sample_counts=chance.choice(some),
            start_indices=chance.choice(some),
            method=chance.choice([0, 0, 1, 1, 3, 4]),
            nonfinite_policy=chance.choice([0, 1, 2, 3]),
            return_points=chance.random() < 0.5,
            return_distances=chance.random() < 0.5,
        )
        answered += is_answered(sent.SerializeToString())
    assert answered > FUZZ_INPUTS // 50


def test_a_message_may_end_anywhere():
    whole = sample_request(cloud(8), 3, lengths=[8], return_points=True).SerializeToString()
    ends = [end for end in range(len(whole) + 1) if is_answered(whole[:end])]
    assert ends == [len(whole) - 2, len(whole)], "without the last field, and whole"
    points = pb.SampleRequest(points=tensor(cloud(8))).SerializeToString()
    counts = pb.SampleRequest(sample_counts=[3]).SerializeToString()
    ends = [end for end in range(len(points) + 1) if is_answered(counts + points[:end])]
    assert ends == [len(points)]


def test_every_number_but_zero_is_true():
    raw = sample_request(cloud(4), 2).SerializeToString()
    for tag in (b"\x40", b"\x48"):
        for value in (b"\0", b"\1", b"\2", b"\x80\x80\1"):
            assert is_answered(raw + tag + value)


@pytest.mark.parametrize(("shape", "answered"), [((4, 3), True), ((4, 3, 1), False)])
def test_fields_may_come_in_any_order(shape, answered):
    counts = pb.SampleRequest(sample_counts=[2]).SerializeToString()
    data = tensor_pb2.Tensor(data=bytes(48)).SerializeToString()
    rest = tensor_pb2.Tensor(data_type=1, shape=shape).SerializeToString()
    assert is_answered(counts + field(1, data + rest)) is answered
