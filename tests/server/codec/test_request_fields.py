"""Fields of SampleRequest: each is read in C++ or left to Python, by decision."""

from collections.abc import Iterator

import numpy as np
import pytest
from google.protobuf.descriptor import Descriptor
from tests.support.messages import sample_request, tensor
from tests.support.raw_sample import is_answered, read

from farpoint.v1 import sampling_pb2 as pb
from farpoint.v1 import tensor_pb2
from farpoint.v1.packed_cloud_pb2 import PackedCloud

pytestmark = pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")
CLOUD = np.random.default_rng(0).random((9, 3), np.float32)
COMMON = sample_request(CLOUD, 2)

READ = {
    "points.data_type": COMMON,
    "points.shape": COMMON,
    "points.data": COMMON,
    "lengths": pb.SampleRequest(lengths=[9]),
    "sample_counts": COMMON,
    "start_indices": pb.SampleRequest(start_indices=[3]),
    "method": pb.SampleRequest(method=1),
    "nonfinite_policy": pb.SampleRequest(nonfinite_policy=1),
    "return_points": pb.SampleRequest(return_points=True),
    "return_distances": pb.SampleRequest(return_distances=True),
    "return_checksums": pb.SampleRequest(return_checksums=True),
    "covering_radius": pb.SampleRequest(covering_radius=0.2),
}
"""What clients send for one cloud."""

LEFT = {
    # Clients put clouds of at least 256 KiB there.
    "points.shared_memory": pb.SampleRequest(points={"shared_memory": {"region": b"r"}}),
    # Of answers alone.
    "points.crc32c": pb.SampleRequest(points={"crc32c": 1}),
    # Clients gather them.
    "attributes": pb.SampleRequest(attributes=[{"name": "a", "values": tensor(CLOUD)}]),
    # Records of sensors: a conversion for each type of field, for clouds that are seldom small.
    "packed_cloud": pb.SampleRequest(packed_cloud=PackedCloud(width=9)),
    # Kernels in Python.
    "voxel_grid": pb.SampleRequest(voxel_grid={"voxel_size": 1}),
    "seeds": pb.SampleRequest(seeds=[1]),
}
"""A message among them is left with all its fields."""


def paths(kind: Descriptor, prefix: str = "") -> Iterator[str]:
    """Every field of a message, nested ones too, but for those of a message that is left."""
    for field in kind.fields:
        path = prefix + field.name
        if field.message_type is None or path in LEFT:
            yield path
        else:
            yield from paths(field.message_type, f"{path}.")


def with_field(change: pb.SampleRequest) -> bytes:
    request = pb.SampleRequest()
    request.CopyFrom(COMMON)
    request.MergeFrom(change if change is not COMMON else pb.SampleRequest())
    return request.SerializeToString()


def test_every_field_is_in_exactly_one_list():
    assert sorted(paths(pb.SampleRequest.DESCRIPTOR)) == sorted([*READ, *LEFT])


@pytest.mark.parametrize("field", READ)
def test_a_field_that_is_read(field):
    assert field in READ
    assert is_answered(with_field(READ[field]))


@pytest.mark.parametrize("field", LEFT)
def test_a_field_that_is_left(field):
    assert not is_answered(with_field(LEFT[field]))


TYPES = {"FLOAT32": "f4", "FLOAT64": "f8"}


@pytest.mark.parametrize("name", tensor_pb2.DataType.keys())
def test_types_of_points(name):
    """Two bytes a coordinate do not pay for a small cloud: few send them."""
    short = name.removeprefix("DATA_TYPE_")
    request = sample_request(CLOUD.astype(TYPES.get(short, "f4")), 2)
    request.points.data_type = tensor_pb2.DataType.Value(name)
    assert is_answered(request.SerializeToString()) is (short in TYPES)


@pytest.mark.parametrize(
    ("field", "read_values", "left_values"),
    [("method", {0, 1, 4}, {2, 3}), ("nonfinite_policy", {0, 1, 2}, set())],
)
def test_values_of_enumerations(field, read_values, left_values):
    kind = pb.SampleRequest.DESCRIPTOR.fields_by_name[field].enum_type
    assert {value.number for value in kind.values} == read_values | left_values
    for value in read_values | left_values:
        raw = sample_request(CLOUD, 2, covering_radius=0.2, **{field: value}).SerializeToString()
        assert (read(raw) is not None) is (value in read_values)
