"""Requests to an exported model: errors by field, and conversion of numbers."""

from dataclasses import replace

import numpy as np
import pytest
from tests.support.messages import TYPES
from tests.support.programs import RAGGED, segmenter_manifest

from farpoint.inference import open_inference_pb2 as pb
from farpoint.v1 import sampling_pb2
from farpoint_models.programs import Batching, Manifest, Role, TensorSpec
from farpoint_server.codec.dtypes import dtype_named
from farpoint_server.codec.open_inference.exported import (
    SCOPES,
    decode_exported_request,
    describe_tensor,
    parse_exported_request,
    serialize_exported_response,
    tensor_sizes,
)
from farpoint_server.codec.open_inference.messages import read_infer_message
from farpoint_server.codec.tensors import RequestLimits
from farpoint_server.compute.work import Outcome
from farpoint_server.errors import InvalidRequestError
from farpoint_server.kinds.batching import ModelInput, ModelOutput

LIMITS = RequestLimits(1 << 20, 10_000, 4)
SEGMENTER = segmenter_manifest()


def request(**changes: object) -> pb.ModelInferRequest:
    """A right request of two clouds of ten points, with some arrays changed or left out (None)."""
    arrays = {
        "xyz": np.arange(60, dtype=np.float32).reshape(2, 10, 3),
        "color": np.ones((2, 10, 2), np.float32),
        "label": np.array([1, 2]),
        **changes,
    }
    outputs = [{"name": name} for name in arrays.pop("outputs", ())]
    made = pb.ModelInferRequest(outputs=outputs)
    for name, array in arrays.items():
        if array is not None:
            datatype = dtype_named(array.dtype.name).inference
            made.inputs.add(name=name, datatype=datatype, shape=array.shape)
            made.raw_input_contents.append(array.tobytes())
    return made


def decode(made: pb.ModelInferRequest, manifest: Manifest = SEGMENTER) -> ModelInput:
    message = read_infer_message(made.SerializeToString())
    return decode_exported_request(parse_exported_request(message, manifest, LIMITS), manifest)


def test_the_shape_of_a_tensor_begins_with_rows_where_it_has_some():
    pairs = TensorSpec("pairs", Role.PER_POINT, "int64", ("P", "K", 2))
    assert tensor_sizes((*SEGMENTER.inputs, SEGMENTER.outputs[2], pairs)) == {
        "xyz": ("FP32", [-1, 3]),
        "color": ("FP32", [-1, 2]),
        "label": ("INT64", []),
        "logits": ("FP32", [5]),
        "pairs": ("INT64", [-1, -1, 2]),
    }
    assert describe_tensor(pairs) == sampling_pb2.ModelTensor(
        name="pairs",
        scope=sampling_pb2.TENSOR_SCOPE_POINT,
        data_type=TYPES["int64"],
        row_shape=[-1, 2],
    )


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"color": None}, "inputs: expected the input 'color', got none of this name"),
        ({"hue": np.ones((2, 1))}, r"inputs\[3\].name: expected each of xyz, color, label once"),
        (
            {"color": np.ones((2, 10, 3), np.float32)},
            r"inputs\[color\].shape: expected \(20, 2\), a row for each point",
        ),
        ({"color": np.ones((2, 9, 2))}, r"inputs\[color\].shape: expected \(2, 10, ...\)"),
        ({"label": np.array([1, 2, 3])}, r"inputs\[label\].shape: expected \(2,\), a row for each"),
        ({"label": np.array([0.5, 1])}, r"inputs\[label\].datatype: expected .* fits int64"),
        (
            {"xyz": np.zeros((2, 5, 3), np.float32)},
            r"inputs\[xyz\].shape: expected 8 to 20000 points of a cloud, .* got 5",
        ),
        ({"outputs": ["score"]}, r"outputs\[0\].name: expected one of scores, samples, logits"),
        (
            {"xyz": 5e6 + np.arange(60.0).reshape(2, 10, 3)},
            r"inputs\[xyz\].data: expected coordinates that float32 tells apart, .* far from 0",
        ),
        ({"xyz": np.zeros((20, 2), np.float32)}, r"inputs\[xyz\].shape: expected \(N, 3\)"),
        ({"color": np.full((2, 10, 2), np.nan, np.float32)}, r"inputs\[color\].data: .* 20 rows"),
        ({"color": np.full((2, 10, 2), 1e300)}, r"inputs\[color\].data: .* beyond float32"),
        (
            {"xyz": np.full((2, 10, 3), np.inf, np.float32)},
            r"inputs\[xyz\].data: expected finite coordinates, got 20 rows",
        ),
    ],
)
def test_what_is_wrong_is_named(changes, reason):
    with pytest.raises(InvalidRequestError, match=f"^{reason}"):
        decode(request(**changes))


def test_rows_of_several_clouds_come_with_the_output_that_counts_them():
    """Without it, nothing would say which are whose."""
    samples = replace(SEGMENTER.outputs[1], counts="kept")
    kept = TensorSpec("kept", Role.COUNTS, "int64", ("B",))
    manifest = replace(SEGMENTER, outputs=(samples, kept))
    result = {
        "samples": ModelOutput(np.zeros((6, 3), np.float32), np.array([2, 4])),
        "kept": ModelOutput(np.array([2, 4]), None),
    }

    def answer(manifest: Manifest, *outputs: str) -> list[tuple[int, ...]]:
        message = read_infer_message(request(outputs=outputs).SerializeToString())
        parsed = parse_exported_request(message, manifest, LIMITS)
        given = message.request, "m", manifest, parsed, 0.0, Outcome(result, 0, 0)
        return [tuple(output.shape) for output in serialize_exported_response(*given).outputs]

    assert answer(manifest, "samples", "kept") == [(6, 3), (2,)]
    with pytest.raises(InvalidRequestError, match=r"outputs\[samples\]: expected the output kept"):
        answer(manifest, "samples")
    with pytest.raises(InvalidRequestError, match="expected one cloud a request"):
        answer(replace(manifest, outputs=(SEGMENTER.outputs[1],)), "samples")


def test_points_may_have_features_behind_their_coordinates():
    xyz = replace(RAGGED.inputs[0], shape=("P", 5))
    manifest = replace(RAGGED, inputs=(xyz, RAGGED.inputs[1]))
    points = np.array([[5e6, 1, 2, 7, 8], [5e6 + 0.25, 1, 2, 9, 10]])
    decoded = decode(request(xyz=points, color=None, label=None), manifest)
    assert decoded.rows["xyz"].tolist() == [[0, 0, 0, 7, 8], [0.25, 0, 0, 9, 10]]
    with pytest.raises(InvalidRequestError, match=r"expected \(N, 5\) or \(B, N, 5\)"):
        decode(request(xyz=points[:, :3], color=None, label=None), manifest)


def test_a_value_of_a_cloud_may_have_a_size_of_its_own():
    target = TensorSpec("target", Role.PER_CLOUD, "float32", ("B", "M", 3))
    manifest = Manifest(
        Batching.EQUAL, (SEGMENTER.inputs[0], target), SEGMENTER.outputs[2:], {"M": (4, 9)}
    )
    sent = request(target=np.ones((2, 7, 3), np.float32), color=None, label=None)
    assert decode(sent, manifest).values["target"].shape == (2, 7, 3)
    sent = request(target=np.ones((2, 3, 3), np.float32), color=None, label=None)
    with pytest.raises(InvalidRequestError, match=r"inputs\[target\].shape: expected 4 to 9 M"):
        decode(sent, manifest)


def test_float64_near_the_origin_is_narrowed():
    decoded = decode(request(xyz=np.linspace(-3, 3, 60).reshape(2, 10, 3)))
    assert decoded.rows["xyz"].dtype == np.float32


def test_the_limit_of_all_points_is_that_of_a_cloud_since_a_request_is_cut():
    few = replace(RAGGED, limits={"P": (2, 12)})
    decoded = decode(request(color=None, label=None), few)
    assert decoded.lengths.tolist() == [10, 10]


@pytest.mark.parametrize("label", [np.array(3), np.array([3])])
def test_one_cloud_has_no_dimension_of_clouds_and_its_value_may_be_a_list_of_one(label):
    xyz, color = np.zeros((10, 3), np.float32), np.zeros((10, 2), np.float32)
    assert decode(request(xyz=xyz, color=color, label=label)).values["label"].tolist() == [3]


def test_a_model_that_takes_clouds_together_bounds_their_number():
    alone = replace(segmenter_manifest(Batching.ALONE), limits={"B": (1, 2)})
    assert decode(request(), alone).lengths.tolist() == [10, 10]
    three = {"xyz": (3, 10, 3), "color": (3, 10, 2)}
    arrays = {name: np.zeros(shape, np.float32) for name, shape in three.items()}
    with pytest.raises(InvalidRequestError, match=r"^inputs\[xyz\].shape: .* 1 to 2 clouds"):
        decode(request(**arrays, label=np.zeros(3, np.int64)), alone)


def test_numbers_become_what_the_model_takes():
    color, label = np.full((2, 10, 2), 3, np.uint8), np.array([1, 2], np.int32)
    decoded = decode(request(color=color, label=label))
    assert decoded.rows["color"].dtype == np.float32
    assert (decoded.rows["color"] == 3).all()
    assert decoded.values["label"].dtype == np.int64
    assert decoded.rows["xyz"].shape == (20, 3)


def test_a_model_may_take_numbers_that_are_not_finite():
    inputs = tuple(replace(spec, nonfinite=True) for spec in SEGMENTER.inputs)
    xyz, color = np.full((2, 10, 3), np.nan, np.float32), np.full((2, 10, 2), np.inf, np.float32)
    decoded = decode(request(xyz=xyz, color=color), replace(SEGMENTER, inputs=inputs))
    assert np.isnan(decoded.rows["xyz"]).all()
    assert np.isinf(decoded.rows["color"]).all()


def test_map_coordinates_are_shifted_where_only_differences_count():
    points = np.array([[5e6, 1, 2], [5e6 + 0.25, 1, 2]])
    decoded = decode(request(xyz=points, color=None, label=None), RAGGED)
    assert decoded.rows["xyz"].tolist() == [[0, 0, 0], [0.25, 0, 0]]


def test_every_role_of_a_callers_tensor_has_a_scope():
    assert set(Role) - set(SCOPES) == {Role.LENGTHS, Role.OFFSETS}
