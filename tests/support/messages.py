"""Raw requests and answers, messages of robots, memory that callers share; answers in C++."""

import fcntl
import os
import random
import time
from collections.abc import Sequence
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

import grpc
import numpy as np
import pytest
from google.rpc import error_details_pb2, status_pb2
from tests.support.clouds import cloud_file

from farpoint.v1 import sampling_pb2 as pb
from farpoint.v1 import tensor_pb2
from farpoint_server.codec.coordinates import decode_sample_request
from farpoint_server.codec.raw_sample import RawSample
from farpoint_server.codec.sample_request import parse_sample_request, read_sample_message
from farpoint_server.codec.sample_response import serialize_sample_response
from farpoint_server.codec.tensors import RequestLimits
from farpoint_server.compute.batch import Batch
from farpoint_server.compute.work import Outcome
from farpoint_server.errors import InvalidRequestError

# Inputs that the fuzz tests of a parser try.
FUZZ_INPUTS = int(os.environ.get("FARPOINT_FUZZ", "2000"))
TYPES = {
    name: tensor_pb2.DataType.Value(f"DATA_TYPE_{name.upper()}")
    for name in (
        *("float16", "float32", "float64", "int8", "int16", "int32", "int64"),
        *("uint8", "uint16", "uint32", "uint64", "bool"),
    )
}


def tensor(array: np.ndarray) -> tensor_pb2.Tensor:
    return tensor_pb2.Tensor(
        data_type=TYPES[array.dtype.name], shape=array.shape, data=array.tobytes()
    )


def sample_request(points: np.ndarray, m: int | Sequence[int], **fields: Any) -> pb.SampleRequest:
    counts = [m] if isinstance(m, int) else m
    return pb.SampleRequest(points=tensor(points), sample_counts=counts, **fields)


def array(answer: tensor_pb2.Tensor, dtype: str) -> np.ndarray:
    return np.frombuffer(answer.data, dtype).reshape(tuple(answer.shape))


def details(error: grpc.RpcError) -> list[Any]:
    """The details of an error, unpacked."""
    packed = dict(error.trailing_metadata())["grpc-status-details-bin"]
    kinds = {kind.DESCRIPTOR.full_name: kind for kind in KINDS}
    unpacked = []
    for detail in status_pb2.Status.FromString(packed).details:
        message = kinds[detail.TypeName()]()
        detail.Unpack(message)
        unpacked.append(message)
    return unpacked


KINDS = (error_details_pb2.BadRequest, error_details_pb2.RetryInfo)


def mutated(seed: bytes, chance: random.Random) -> bytes:
    """Bytes changed, cut out, doubled or appended, a few times."""
    data = bytearray(seed)
    for _ in range(chance.randrange(4)):
        at, end = sorted(chance.randrange(len(data) + 1) for _ in range(2))
        kind = chance.randrange(5)
        if kind == 0 and at < len(data):
            data[at] = chance.randrange(256)
        elif kind == 1:
            del data[at : min(end, at + 9)]
        elif kind == 2:
            data[at:at] = data[at : min(end, at + 40)]
        elif kind == 3:
            data[at:at] = chance.randbytes(chance.randrange(6))
        elif kind == 4:
            del data[at:]
    return bytes(data)


def varint(value: int) -> bytes:
    """A number as the wire has it."""
    packed = bytearray()
    while value >= 0x80:
        packed.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*packed, value])


def field(number: int, content: bytes) -> bytes:
    """A field that holds bytes, a message or packed numbers."""
    return varint(number << 3 | 2) + varint(len(content)) + content


RECORDING = "os1_two_scans_part.mcap"
# Codes of sensor_msgs/PointField and of foxglove.PackedElementField.
ROS_CODES = {
    **{"int8": 1, "uint8": 2, "int16": 3, "uint16": 4, "int32": 5, "uint32": 6},
    **{"float32": 7, "float64": 8, "int64": 9, "uint64": 10, "bool": 11},
}
FOXGLOVE_CODES = {
    **{"uint8": 1, "int8": 2, "uint16": 3, "int16": 4, "uint32": 5, "int32": 6},
    **{"float32": 7, "float64": 8},
}


@lru_cache
def recorded_messages() -> list[Any]:
    """The two `sensor_msgs/PointCloud2` of RECORDING, of the classes of rosbags."""
    highlevel = pytest.importorskip("rosbags.highlevel")
    from rosbags.typesys import Stores, get_typestore

    store = get_typestore(Stores.ROS2_HUMBLE)
    with highlevel.AnyReader([cloud_file(RECORDING)], default_typestore=store) as reader:
        return [reader.deserialize(data, c.msgtype) for c, _, data in reader.messages()]


def ros_message(
    columns: dict[str, np.ndarray], *, height: int = 1, order: str = "<", gap: int = 0
) -> SimpleNamespace:
    """A PointCloud2 of columns (N,) or (N, count), with holes, and bytes behind each row."""
    offsets, formats, at = [], [], 3
    for values in columns.values():
        offsets.append(at)
        formats.append((values.dtype.newbyteorder(order), values.shape[1:]))
        at += values.dtype.itemsize * int(np.prod(values.shape[1:])) + 1
    layout = {"names": list(columns), "formats": formats, "offsets": offsets, "itemsize": at}
    width = len(next(iter(columns.values()))) // height
    data = np.full((height, width * at + gap), 0xFF, np.uint8)
    records = np.ndarray((height, width), np.dtype(layout), data, strides=(data.shape[1], at))
    fields = []
    for (name, values), offset in zip(columns.items(), offsets, strict=True):
        records[name] = values.reshape(height, width, *values.shape[1:])
        code, count = ROS_CODES[values.dtype.name], int(np.prod(values.shape[1:]))
        fields.append(SimpleNamespace(name=name, offset=offset, datatype=code, count=count))
    return SimpleNamespace(
        height=height,
        width=width,
        fields=fields,
        is_bigendian=order == ">",
        point_step=at,
        row_step=data.shape[1],
        data=data.reshape(-1),
    )


def foxglove_message(columns: dict[str, np.ndarray]) -> SimpleNamespace:
    """A foxglove.PointCloud of columns (N,)."""
    message = ros_message(columns)
    names = {code: name for name, code in ROS_CODES.items()}
    fields = [
        SimpleNamespace(name=f.name, offset=f.offset, type=FOXGLOVE_CODES[names[f.datatype]])
        for f in message.fields
    ]
    data = message.data.tobytes()
    return SimpleNamespace(point_stride=message.point_step, fields=fields, data=data)


def columns_of(points: np.ndarray, **others: np.ndarray) -> dict[str, np.ndarray]:
    """x, y and z of an array (N, 3), and others."""
    return dict(zip("xyz", np.ascontiguousarray(points.T), strict=True)) | others


class MemoryObjects:
    """Makes memfds, and closes them all at the end."""

    def __init__(self) -> None:
        self._descriptors: list[int] = []

    def __call__(self, size: int, *, sealed: bool = True, flags: int = 0) -> int:
        descriptor = os.memfd_create("test", os.MFD_ALLOW_SEALING | flags)
        self._descriptors.append(descriptor)
        os.ftruncate(descriptor, size)
        if sealed:
            fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
        return descriptor

    def __enter__(self) -> "MemoryObjects":
        return self

    def __exit__(self, *_: object) -> None:
        for descriptor in self._descriptors:
            os.close(descriptor)


LIMITS = RequestLimits(message_bytes=1 << 20, points=5000, clouds=9)


def read(
    raw: bytes,
    budget_ns: int = 1_000_000_000,
    limits: RequestLimits = LIMITS,
    *,
    is_streamed: bool = False,
) -> RawSample | None:
    return RawSample.read(raw, limits, budget_ns, time.monotonic(), is_streamed=is_streamed)


def python_response(raw: bytes) -> bytes:
    """The SampleResponse of the server's Python; raises InvalidRequestError."""
    parsed = parse_sample_request(read_sample_message(raw, LIMITS.clouds), LIMITS)
    decoded = decode_sample_request(parsed)
    return serialize_sample_response(0.0, decoded, Outcome(decoded.work.inline(10**9), 0, 0))


def timeless(serialized: bytes) -> pb.SampleResponse:
    response = pb.SampleResponse.FromString(serialized)
    response.ClearField("timings")
    return response


def batch_responses(works: list[RawSample]) -> list[bytes | None]:
    """The SampleResponses of a batch."""
    answers = Batch(works).run_on_cpu()
    return [
        work.respond(Outcome(answer, 0, 0)) for work, answer in zip(works, answers, strict=True)
    ]


def is_answered(raw: bytes) -> bool:
    """Whether C++ answers a SampleRequest, alone and in a batch: as Python does."""
    work = read(raw)
    answer = work.inline(10**9) if work else None
    if work:
        (batched,) = batch_responses([read(raw)])
        assert (batched and timeless(batched)) == (answer and timeless(answer)), raw
    if answer is None:
        return False
    try:
        assert timeless(answer) == timeless(python_response(raw)), raw
    except InvalidRequestError as error:
        pytest.fail(f"a wrong message was answered: {error}: {raw!r}")
    assert work.samples == pb.SampleResponse.FromString(answer).lengths[0]
    return True
