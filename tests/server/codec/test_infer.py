"""What a request to a program can get wrong, by field; and what its numbers become."""

from dataclasses import replace

import numpy as np
import pytest
from tests.support.programs import RAGGED, segmenter_manifest

from farpoint.v1 import sampling_pb2 as pb
from farpoint.v1 import tensor_pb2
from farpoint_models.programs import Joining, Manifest
from farpoint_server.codec.infer import decode_infer_request, parse_infer_request
from farpoint_server.codec.parts import check_infer
from farpoint_server.codec.validation import RequestLimits
from farpoint_server.engine.types import ProgramInput
from farpoint_server.errors import InvalidRequestError

LIMITS = RequestLimits(1 << 20, 10_000, 4)
SEGMENTER = segmenter_manifest()
TYPES = {
    np.dtype(name): tensor_pb2.DataType.Value(f"DATA_TYPE_{name.upper()}")
    for name in ("float64", "float32", "float16", "int64", "int32", "uint8", "bool")
}


def tensor(array: np.ndarray) -> tensor_pb2.Tensor:
    data = array.tobytes()
    return tensor_pb2.Tensor(data_type=TYPES[array.dtype], shape=array.shape, data=data)


def request(**changes: object) -> pb.InferRequest:
    """A right request of two clouds of ten points, with some arrays changed or left out (None)."""
    arrays = {
        "points": np.arange(60, dtype=np.float32).reshape(20, 3),
        "color": np.ones((20, 2), np.float32),
        "label": np.array([1, 2]),
        **changes,
    }
    lengths, outputs = arrays.pop("lengths", [10, 10]), arrays.pop("outputs", ())
    points = tensor(arrays.pop("points"))
    made = pb.InferRequest(points=points, lengths=lengths, outputs=outputs)
    for name, array in arrays.items():
        if array is not None:
            made.inputs.add(name=name).values.CopyFrom(tensor(array))
    return made


def decode(message: pb.InferRequest, manifest: Manifest = SEGMENTER) -> ProgramInput:
    parsed = parse_infer_request(message, message.ByteSize(), manifest, LIMITS)
    return decode_infer_request(parsed, manifest)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"color": None}, "inputs: expected the input 'color', got none of this name"),
        ({"hue": np.ones((20, 1))}, r"inputs\[2\].name: expected each of color, label once"),
        ({"color": np.ones((20, 3), np.float32)}, r"inputs\[color\].shape: expected \(20, 2\)"),
        ({"label": np.array([1, 2, 3])}, r"inputs\[label\].shape: expected \(2,\), a row for each"),
        ({"label": np.array([0.5, 1])}, r"inputs\[label\].data_type: expected .* fits int64"),
        ({"lengths": [17, 3]}, "lengths: expected 8 to 20000 points of a cloud, .* got 3"),
        ({"outputs": ["score"]}, r"outputs\[0\]: expected one of scores, samples, logits"),
        ({"points": np.zeros((20, 3))}, "points.data_type: expected FLOAT32, .* got FLOAT64"),
        ({"points": np.zeros((20, 2), np.float32)}, r"points.shape: expected \(P, 3\)"),
        ({"color": np.full((20, 2), np.nan, np.float32)}, r"inputs\[color\].data: .* 20 rows"),
        ({"color": np.full((20, 2), 1e300)}, r"inputs\[color\].data: .* within float32"),
        (
            {"points": np.full((20, 3), np.inf, np.float32)},
            "points.data: expected finite coordinates, got 20 rows",
        ),
    ],
)
def test_what_is_wrong_is_named(changes, reason):
    with pytest.raises(InvalidRequestError, match=f"^{reason}"):
        decode(request(**changes))


def test_a_program_that_takes_the_clouds_together_needs_them_of_one_size():
    alone = segmenter_manifest(Joining.ALONE)
    with pytest.raises(InvalidRequestError, match=r"^lengths: .* takes them together, got 9 to 11"):
        decode(request(lengths=[9, 11]), alone)
    assert decode(request(), alone).lengths.tolist() == [10, 10]


def test_numbers_become_what_the_program_takes():
    decoded = decode(request(color=np.full((20, 2), 3, np.uint8), label=np.array([1, 2], np.int32)))
    assert decoded.rows["color"].dtype == np.float32
    assert (decoded.rows["color"] == 3).all()
    assert decoded.values["label"].dtype == np.int64
    assert decoded.rows["xyz"].shape == (20, 3)


def test_ten_numbers_of_a_cloud_of_ten_points_are_the_clouds():
    """The client, which does not know the model, sends them as if each were of a point."""
    label = replace(SEGMENTER.inputs[2], shape=("B", 10))
    manifest = replace(SEGMENTER, inputs=(*SEGMENTER.inputs[:2], label))
    sent = np.arange(20)
    values = decode(request(label=sent), manifest).values["label"]
    np.testing.assert_array_equal(values, sent.reshape(2, 10))


def test_map_coordinates_are_shifted_where_only_differences_count():
    points = np.array([[5e6, 1, 2], [5e6 + 0.25, 1, 2]])
    message = request(points=points, color=None, label=None, lengths=[])
    assert decode(message, RAGGED).rows["xyz"].tolist() == [[0, 0, 0], [0.25, 0, 0]]


def test_a_request_of_too_many_parts_is_refused_before_it_is_parsed():
    message = pb.InferRequest(outputs=["a"] * 257)
    with pytest.raises(InvalidRequestError, match=r"^outputs: expected at most 256"):
        check_infer(4)(memoryview(message.SerializeToString()))
