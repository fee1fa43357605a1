"""Requests of the Open Inference Protocol at their bounds, and the answer of the model `fps`."""

import numpy as np
import pytest

from farpoint.inference import open_inference_pb2 as pb
from farpoint_server.codec.coordinates import decode_sample_request
from farpoint_server.codec.open_inference import fps
from farpoint_server.codec.open_inference.message import whole
from farpoint_server.codec.open_inference.model_config import model_metadata
from farpoint_server.codec.tensors import RequestLimits
from farpoint_server.engine.types import Outcome, Samples
from farpoint_server.errors import InvalidRequestError

LIMITS = RequestLimits(message_bytes=10_000, points=100, clouds=4)


def request(shape, count=1, count_type="INT64", outputs=(), **parameters) -> pb.ModelInferRequest:
    made = pb.ModelInferRequest(model_name="fps", id="7", outputs=[{"name": o} for o in outputs])
    points = np.arange(np.prod(shape), dtype=np.float32)
    made.inputs.add(name="points", datatype="FP32", shape=shape)
    made.inputs.add(name="sample_count", datatype=count_type, shape=[1])
    counts = np.array([count], "<i8" if count_type == "INT64" else "<i4")
    made.raw_input_contents.extend([points.tobytes(), counts.tobytes()])
    for name, value in parameters.items():
        made.parameters[name].int64_param = value
    return made


@pytest.mark.parametrize(
    ("shape", "right"),
    [
        ((1, 3), True),
        ((100, 3), True),
        ((101, 3), False),
        ((4, 25, 3), True),
        ((4, 26, 3), False),
        ((5, 1, 3), False),
        ((1, 1, 3), True),
        ((0, 1, 3), False),
        ((1, 0, 3), False),
        ((3,), False),
        ((2, 4), False),
        ((1, 1, 1, 3), False),
    ],
)
def test_clouds_and_points_are_within_their_limits(shape, right):
    if right:
        parsed = fps.parse_fps_request(whole(request(shape)), LIMITS)
        clouds = shape[0] if len(shape) == 3 else 1
        assert parsed.lengths.tolist() == [shape[-2]] * clouds
        return
    with pytest.raises(InvalidRequestError) as caught:
        fps.parse_fps_request(whole(request(shape)), LIMITS)
    assert caught.value.field == "inputs[points].shape"


@pytest.mark.parametrize("count_type", ["INT64", "INT32"])
@pytest.mark.parametrize(("count", "right"), [(1, True), (6, True), (7, False), (0, False)])
def test_a_sample_count_is_within_the_points(count_type, count, right):
    made = request((6, 3), count, count_type)
    if right:
        assert fps.parse_fps_request(whole(made), LIMITS).sample_counts.tolist() == [count]
        return
    with pytest.raises(InvalidRequestError, match="1 to 6") as caught:
        fps.parse_fps_request(whole(made), LIMITS)
    assert caught.value.field == "inputs[sample_count][0]"


@pytest.mark.parametrize(("start", "right"), [(0, True), (5, True), (6, False), (-1, False)])
def test_a_start_is_a_row(start, right):
    made = request((6, 3), start_index=start)
    if right:
        assert fps.parse_fps_request(whole(made), LIMITS).starts.tolist() == [start]
        return
    with pytest.raises(InvalidRequestError, match="0 to 5"):
        fps.parse_fps_request(whole(made), LIMITS)


def test_a_model_says_what_it_takes_and_gives():
    said = model_metadata("fps", fps.INPUTS, fps.OUTPUTS)
    assert (said.name, list(said.versions), said.platform) == ("fps", ["1"], "farpoint")
    assert [(t.name, t.datatype, list(t.shape)) for t in said.inputs] == [
        ("points", "FP32", [-1, 3]),
        ("sample_count", "INT64", [1]),
        ("features", "FP32", [-1, -1]),
        ("start", "INT64", [1]),
    ]
    assert [(t.name, t.datatype, list(t.shape)) for t in said.outputs] == [
        ("indices", "INT32", [-1]),
        ("distances", "FP32", [-1]),
        ("points", "FP32", [-1, 3]),
        ("features", "FP32", [-1, -1]),
    ]


@pytest.mark.parametrize(("shape", "sizes"), [((6, 3), [2]), ((2, 3, 3), [2, 1])])
def test_the_answer_has_the_dimensions_of_the_request(shape, sizes):
    made = request(shape, count=2 // (len(shape) - 1), outputs=("distances", "indices"))
    decoded = decode_sample_request(fps.parse_fps_request(whole(made), LIMITS))
    samples = Samples(np.array([1, 4], np.int32), np.array([0.5, 2.5], np.float32))
    answer = fps.serialize_fps_response(made, 0.0, decoded, Outcome(samples, 0, 0))
    assert (answer.model_name, answer.model_version, answer.id) == ("fps", "1", "7")
    assert [(o.name, o.datatype, list(o.shape)) for o in answer.outputs] == [
        ("distances", "FP32", sizes),
        ("indices", "INT32", sizes),
    ]
    distances, indices = (
        np.frombuffer(raw, dtype).tolist()
        for raw, dtype in zip(answer.raw_output_contents, ("<f4", "<i4"), strict=True)
    )
    assert distances == [0.5, 2.5]
    # Rows count from the first of their cloud.
    assert indices == ([1, 4] if len(shape) == 2 else [1, 1])
