"""Checksums, which a server sends on request, detect damaged answers."""

from collections import Counter
from collections.abc import Iterator

import google_crc32c
import numpy as np
import pytest
from google.protobuf.message import DecodeError
from tests.support.messages import sample_request, tensor
from tests.support.servers.server_process import RunningServer

import farpoint
from farpoint._connection.call import CallContext
from farpoint._rpcs.sample import SampleRpc
from farpoint._tensors import Checksums
from farpoint.v1 import sampling_pb2 as pb
from farpoint.v1 import tensor_pb2

RANDOM = np.random.default_rng(8)
CLOUDS = [RANDOM.random((n, 3)) for n in (300, 500)]


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with RunningServer("--encoder", "default") as server:
        yield server


def tensors(message) -> list[tensor_pb2.Tensor]:
    """Every checksum in an answer."""
    found = []
    for field, value in message.ListFields():
        if field.type != field.TYPE_MESSAGE:
            continue
        for inner in value if field.is_repeated else [value]:
            is_tensor = isinstance(inner, tensor_pb2.Tensor)
            found += [inner] if is_tensor else tensors(inner)
    return found


def crc_of(sent: tensor_pb2.Tensor) -> int:
    """As the contract defines it."""
    numbers = [sent.data_type, *sent.shape]
    return google_crc32c.value(b"".join(n.to_bytes(8, "little") for n in numbers) + sent.data)


def answers(stub, **asked: bool) -> list:
    points = np.concatenate(CLOUDS)
    request = sample_request(
        points,
        20,
        lengths=[300, 500],
        return_points=True,
        return_distances=True,
        attributes=[
            tensor_pb2.Attribute(name="a", values=tensor(points[:, :1])),
            tensor_pb2.Attribute(name="none", values=tensor(points[:, :0])),
        ],
        **asked,
    )
    encode = pb.EncodeRequest(points=tensor(points), lengths=[300, 500], return_points=True)
    encode.MergeFrom(pb.EncodeRequest(**asked))
    (streamed,) = stub.SampleStream(iter([pb.SampleStreamRequest(request=request)]))
    head, data = pb.SampleRequest(), request.points.data
    head.CopyFrom(request)
    head.points.ClearField("data")
    pieces = [pb.SampleLargeRequest(request=head), pb.SampleLargeRequest(points_data=data)]
    return [stub.Sample(request), streamed, stub.SampleLarge(iter(pieces)), stub.Encode(encode)]


def test_each_tensor_of_each_answer_has_its_checksum_on_request_only(stub):
    for answer, count in zip(answers(stub, return_checksums=True), (6, 6, 6, 20), strict=True):
        found = tensors(answer)
        assert len(found) == count
        for one in found:
            assert one.HasField("crc32c")
            assert one.crc32c == crc_of(one)
    for answer in answers(stub):
        assert not [one for one in tensors(answer) if one.HasField("crc32c")]


def test_no_byte_of_an_answer_can_be_flipped_unnoticed(stub):
    """Timings aside, which are no data. Without checksums many flips give other numbers."""
    assert flips(stub, Checksums.REQUIRED)["wrong"] == 0
    assert flips(stub, Checksums.OFF)["wrong"] > 500


def flips(stub, checksums: Checksums) -> Counter:
    rpc = SampleRpc(CLOUDS, [9, 12], checksums=checksums)
    raw = stub.Sample(rpc.request).SerializeToString()
    expected = numbers(rpc, raw)
    outcomes: Counter = Counter()
    for at in range(len(raw)):
        for mask in (1, 2, 4, 8, 16, 32, 64, 128, 255):
            damaged = raw[:at] + bytes([raw[at] ^ mask]) + raw[at + 1 :]
            try:
                got = numbers(rpc, damaged)
            except (farpoint.FarpointError, DecodeError):
                outcomes["noticed"] += 1
            else:
                outcomes["right" if got == expected else "wrong"] += 1
    assert outcomes["noticed"] > 500, outcomes
    return outcomes


def numbers(rpc: SampleRpc, raw: bytes) -> list[bytes]:
    samples = rpc.read(pb.SampleResponse.FromString(raw), CallContext(None))
    arrays = [(s.indices, s.points, s.distances, s.origin) for s in samples]
    return [array.tobytes() for each in arrays for array in each]
