"""Requests of the Open Inference Protocol to the model `fps`: right, wrong and at their bounds."""

import numpy as np
import pytest
from tests.support.messages import field as wire_field

from farpoint.inference import open_inference_pb2 as pb
from farpoint_server.codec.open_inference import fps
from farpoint_server.codec.open_inference.messages import read_infer_message
from farpoint_server.codec.tensors import RequestLimits
from farpoint_server.errors import InvalidRequestError, UnsupportedError

LIMITS = RequestLimits(message_bytes=1000, points=100, clouds=4)
CLOUD = np.arange(30, dtype=np.float32).reshape(10, 3)


def request(points=CLOUD, count=3, shape=None, datatype="FP32", **fields):
    made = pb.ModelInferRequest(model_name="fps", **fields)
    made.inputs.add(name="points", datatype=datatype, shape=shape or points.shape)
    made.inputs.add(name="sample_count", datatype="INT64", shape=[1])
    made.raw_input_contents.extend([points.tobytes(), np.int64(count).tobytes()])
    return made


def parse(made):
    return fps.parse_fps_request(read_infer_message(made.SerializeToString()), LIMITS)


def changed(change):
    made = request()
    change(made)
    return made


def with_input(name, values):
    made = request()
    datatype = f"{'FP' if values.dtype.kind == 'f' else 'INT'}{8 * values.itemsize}"
    made.inputs.add(name=name, datatype=datatype, shape=values.shape)
    made.raw_input_contents.append(values.tobytes())
    return made


def test_a_batch_is_equal_clouds():
    parsed = parse(request(shape=(2, 5, 3)))
    assert parsed.lengths.tolist() == [5, 5]
    assert parsed.points.array().tolist() == CLOUD.tolist()
    assert (parsed.sample_counts.tolist(), parsed.starts.tolist()) == ([3], [0])
    assert parsed.return_distances
    assert not parsed.ignore_nonfinite
    one = request(CLOUD[:1], count=1)
    one.inputs[1].datatype, one.raw_input_contents[1] = "INT32", b"\1\0\0\0"
    assert parse(one).lengths.tolist() == parse(one).sample_counts.tolist() == [1]


@pytest.mark.parametrize("order", [("indices",), ("distances", "indices")])
def test_inputs_may_come_in_any_order_and_outputs_are_chosen(order):
    made = request(outputs=[{"name": name} for name in order])
    for field in (made.inputs, made.raw_input_contents):
        entries = list(field)[::-1]
        del field[:]
        field.extend(entries)
    parsed = parse(made)
    assert parsed.points.shape == (10, 3)
    assert parsed.return_distances == ("distances" in order)


def test_the_policy_is_a_parameter_and_others_do_no_harm():
    made = request()
    made.parameters["nonfinite_policy"].string_param = "ignore"
    made.parameters["priority"].uint64_param = 1
    assert parse(made).ignore_nonfinite


WRONG = {
    "no inputs": (pb.ModelInferRequest(), "inputs"),
    "an unknown input": (changed(lambda r: r.inputs.add(name="x")), "inputs[2].name"),
    "one input twice": (changed(lambda r: r.inputs.add(name="points")), "inputs[2].name"),
    "too few raw contents": (changed(lambda r: r.raw_input_contents.pop()), "raw_input_contents"),
    "raw and typed": (
        changed(lambda r: r.inputs[0].contents.fp32_contents.append(1)),
        "inputs[points].contents",
    ),
    "neither": (changed(lambda r: r.ClearField("raw_input_contents")), "inputs[points].contents"),
    "bytes that do not fit": (request(shape=(9, 3)), "inputs[points].contents"),
    "overflowing shape": (request(shape=(2**62, 3)), "inputs[points].contents"),
    "negative shape": (request(shape=(-10, -3)), "inputs[points].shape"),
    "many dimensions": (request(shape=[2**62] * 300), "inputs[points].shape"),
    "many dimensions of another input": (
        changed(lambda r: r.inputs[1].shape.extend([2**62] * 300)),
        "inputs[sample_count].shape",
    ),
    "more outputs than there are": (request(outputs=[{"name": "indices"}] * 4), "outputs"),
    "a flat cloud": (request(shape=(30,)), "inputs[points].shape"),
    "no point": (request(CLOUD[:0], shape=(0, 3)), "inputs[points].shape"),
    "too many points": (request(np.zeros((101, 3), np.float32)), "inputs[points].shape"),
    "too many clouds": (request(shape=(5, 2, 3)), "inputs[points].shape"),
    "integers": (request(datatype="INT32"), "inputs[points].datatype"),
    "too many samples": (request(count=11), "inputs[sample_count][0]"),
    "no sample": (request(count=0), "inputs[sample_count][0]"),
    "two sample counts": (
        changed(
            lambda r: (
                r.inputs[1].shape.__setitem__(0, 2),
                r.raw_input_contents.__setitem__(1, bytes(16)),
            )
        ),
        "inputs[sample_count].shape",
    ),
    "a start beyond": (with_input("start", np.array([10])), "inputs[start][0]"),
    "a negative start": (with_input("start", np.array([-1])), "inputs[start][0]"),
    "starts of other clouds": (with_input("start", np.array([1, 2, 3])), "inputs[start].shape"),
    "features of fewer rows": (with_input("features", CLOUD[1:]), "inputs[features].shape"),
    "one feature": (with_input("features", np.ones(1, "f4")), "inputs[features].shape"),
    "features that were not sent": (request(outputs=[{"name": "features"}]), "outputs[0].name"),
    "unknown policy": (
        changed(lambda r: r.parameters["nonfinite_policy"].__setattr__("string_param", "x")),
        "parameters[nonfinite_policy]",
    ),
    "unknown output": (request(outputs=[{"name": "x"}]), "outputs[0].name"),
    "classification": (
        request(outputs=[{"name": "indices", "parameters": {"classification": {}}}]),
        "outputs[0].parameters",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_request_is_refused_by_its_field(case):
    made, field = WRONG[case]
    with pytest.raises(InvalidRequestError) as caught:
        parse(made)
    assert caught.value.field == field


@pytest.mark.parametrize("where", ["inputs", "outputs"])
def test_a_tensor_in_shared_memory_is_not_supported(where):
    made = request(outputs=[{"name": "indices"}])
    getattr(made, where)[0].parameters["shared_memory_region"].string_param = "region"
    with pytest.raises(UnsupportedError, match=f"{where}.*send the tensor in the message"):
        parse(made)


@pytest.mark.parametrize(
    "made",
    [
        changed(lambda r: r.inputs.add(name="x" * 9999)),
        changed(lambda r: r.inputs[0].__setattr__("datatype", "x" * 9999)),
        changed(lambda r: r.inputs[0].shape.extend([2**63 - 1] * 30)),
        request(outputs=[{"name": "x" * 9999}]),
        changed(lambda r: r.parameters["nonfinite_policy"].__setattr__("string_param", "x" * 9999)),
    ],
)
def test_what_the_caller_wrote_is_cut_in_errors(made):
    """Trailers above 8 KiB are refused by clients, who then see another status."""
    with pytest.raises(InvalidRequestError) as caught:
        parse(made)
    assert len(str(caught.value)) < 1500


@pytest.mark.parametrize("points", [CLOUD, np.arange(9000, dtype=np.float32).reshape(3000, 3)])
@pytest.mark.parametrize(
    ("datatype", "field"), [("FP32", "fp32_contents"), ("FP64", "fp64_contents")]
)
@pytest.mark.parametrize("repeated", [False, True])
def test_typed_contents_of_any_size_are_those_numbers(points, datatype, field, repeated):
    made = request(points, datatype=datatype)
    made.ClearField("raw_input_contents")
    getattr(made.inputs[0].contents, field).extend(points.ravel())
    made.inputs[1].contents.int64_contents.append(3)
    raw = made.SerializeToString()
    if repeated:  # as protobuf merges them: in two pieces, which cannot be cut out as one
        more = pb.ModelInferRequest.InferInputTensor(contents=made.inputs[0].contents)
        getattr(more.contents, field)[:] = points.ravel()[-3:]
        getattr(made.inputs[0].contents, field)[:] = points.ravel()[:-3]
        first = made.inputs[0].SerializeToString() + more.SerializeToString()
        del made.inputs[0]
        raw = wire_field(5, first) + made.SerializeToString()
    limits = RequestLimits(message_bytes=1 << 20, points=3000, clouds=4)
    parsed = fps.parse_fps_request(read_infer_message(raw), limits)
    assert parsed.points.array().tolist() == points.tolist()
