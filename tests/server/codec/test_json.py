"""JSON: REST of Open Inference, alone and with binary data, and messages in their JSON form."""

import json
import tracemalloc
from contextlib import nullcontext, suppress

import numpy as np
import pytest

from farpoint.inference import open_inference_pb2 as pb
from farpoint.v1 import sampling_pb2
from farpoint_server.codec.json_form import MAX_FIELDS, read_json
from farpoint_server.codec.open_inference import fps, rest
from farpoint_server.codec.open_inference.messages import read_infer_message
from farpoint_server.codec.tensors import RequestLimits
from farpoint_server.errors import InvalidRequestError

LIMITS = RequestLimits(message_bytes=10_000, points=100, clouds=4)
CLOUD = np.arange(30, dtype=np.float32).reshape(10, 3)
COUNT = {"name": "sample_count", "shape": [1], "datatype": "INT64", "data": [3]}


def points(**fields):
    return {"name": "points", "shape": [10, 3], "datatype": "FP32", **fields}


def body(*inputs, binary=b"", **fields):
    """A body and the size of its JSON."""
    text = json.dumps({"inputs": inputs, **fields}).encode()
    return text + binary, len(text)


def parse(*inputs, binary=b"", **fields):
    return fps.parse_fps_request(message(*body(*inputs, binary=binary, **fields)), LIMITS)


def message(*body):
    """As it goes on from the REST endpoint."""
    return read_infer_message(rest.read_rest_request("fps", "1", *body)[1])


@pytest.mark.parametrize("data", [CLOUD.ravel().tolist(), CLOUD.tolist()], ids=["flat", "nested"])
def test_numbers_in_json_are_the_points(data):
    parameters = {"nonfinite_policy": "ignore", "priority": 2**63 - 1}
    assert message(*body(points(shape=[1] * 32, data=[1])))  # as many dimensions as there may be
    read = message(*body(points(data=data), COUNT, id="7", parameters=parameters))
    assert (read.request.model_name, read.request.id) == ("fps", "7")
    parsed = fps.parse_fps_request(read, LIMITS)
    np.testing.assert_array_equal(parsed.points.array(), CLOUD)
    assert (parsed.sample_counts.tolist(), parsed.ignore_nonfinite) == ([3], True)


def test_integers_in_json_beyond_float64_are_exact():
    data = rest.tensor_bytes({"data": [2**53 + 1]}, "INT64", (1,), "data")
    assert int.from_bytes(data, "little") == 2**53 + 1


@pytest.mark.parametrize("default", [False, True])
@pytest.mark.parametrize("asked", [None, False, True])
def test_an_output_is_binary_as_is_asked_of_it_or_else_of_all(default, asked):
    parameters = {} if asked is None else {"parameters": {"binary_data": asked}}
    fields = {
        "outputs": [{"name": "o", **parameters}],
        "parameters": {"binary_data_output": default},
    }
    request, _ = rest.read_rest_request("fps", "1", *body(**fields))
    response = pb.ModelInferResponse(model_name="fps", id="7", raw_output_contents=[b"\1\2"])
    response.outputs.add(name="o", datatype="UINT8", shape=[2])
    response.parameters["queue_ms"].double_param = 0.5
    text, binary = rest.write_rest_response(request, response)
    answered = json.loads(text)
    assert (answered["id"], answered["parameters"]) == ("7", {"queue_ms": 0.5})
    is_binary = default if asked is None else asked
    found = {"parameters": {"binary_data_size": 2}} if is_binary else {"data": [1, 2]}
    assert answered["outputs"] == [{"name": "o", "datatype": "UINT8", "shape": [2], **found}]
    assert binary == ([b"\1\2"] if is_binary else [])


def test_numbers_that_json_lacks_need_binary_data():
    request, _ = rest.read_rest_request("fps", "", *body(points(data=[]), COUNT))
    many = bytes(rest.MAX_NUMBERS)
    assert rest.tensor_numbers("features", "INT8", many) == [*many]
    for datatype, data in (
        ("FP32", np.float32("nan")),
        ("BF16", np.uint16(0x7FC0)),
        ("INT8", np.zeros(len(many) + 1, np.int8)),
    ):
        response = pb.ModelInferResponse(raw_output_contents=[data.tobytes()])
        response.outputs.add(name="features", datatype=datatype, shape=[1])
        with pytest.raises(InvalidRequestError, match="binary_data") as caught:
            rest.write_rest_response(request, response)
        assert caught.value.field == "outputs[features]"


WRONG = {
    "no JSON": (b"{", "request"),
    "a list": (b"[]", "request"),
    "deep": (b"[" * 100_000, "request"),
    "an id that is a number": (b'{"id": 7}', "request"),
    "half a surrogate pair": (b'{"id": "\\ud800"}', "request"),
    "half a pair as name": (b'{"parameters": {"\\ud800": "x"}}', "request"),
    "inputs of another kind": (b'{"inputs": 7}', "inputs"),
    "an input of another kind": (b'{"inputs": [7]}', "inputs[0]"),
    "an output of another kind": (b'{"outputs": [7]}', "outputs[0]"),
    "a list as parameter": (b'{"parameters": {"x": []}}', "parameters"),
    "a large parameter": (b'{"parameters": {"x": 9223372036854775808}}', "request"),
    "no data": (body(points())[0], "inputs[0].data"),
    "text": (body(points(data=["x"]))[0], "inputs[0].data"),
    "booleans": (body(points(data=[True] * 30))[0], "inputs[0].data"),
    "ragged": (body(points(data=[[1, 2, 3], [4, 5]]))[0], "inputs[0].data"),
    "another shape": (body(points(data=CLOUD.T.tolist()))[0], "inputs[0].data"),
    "huge integers": (body({**COUNT, "data": [2**70]})[0], "inputs[0].data"),
    "beyond the type": (body({**COUNT, "datatype": "INT32", "data": [2**40]})[0], "inputs[0].data"),
    "a fraction": (body({**COUNT, "data": [1.5]})[0], "inputs[0].data"),
    "an integer that no double is": (body(points(data=[10**400]))[0], "inputs[0].data"),
    "many inputs": (b'{"inputs": [' + b"{}," * 99 + b"{}]}", "inputs"),
    "many dimensions": (body(points(shape=[1] * 99))[0], "inputs[0].shape"),
    "a list among numbers": (body(points(data=[1, [2]]))[0], "inputs[0].data"),
    "an unknown type": (body(points(datatype="BYTES", data=["x"]))[0], "inputs[0].datatype"),
    "a type in lower case": (body(points(datatype="fp32"))[0], "inputs[0].datatype"),
    "no type": (body(points(datatype=""))[0], "inputs[0].datatype"),
    "bfloat16 as numbers": (body(points(datatype="BF16", data=[1] * 30))[0], "inputs[0].data"),
    "a shape of text": (body(points(shape=["x"], data=[]))[0], "request"),
    "data twice": (body(points(data=[], parameters={"binary_data_size": 0}))[0], "inputs[0].data"),
    "less binary data than it says": (
        body(points(parameters={"binary_data_size": 120}))[0],
        "inputs[0].parameters[binary_data_size]",
    ),
    "a negative size": (
        body(points(parameters={"binary_data_size": -1}))[0],
        "inputs[0].parameters[binary_data_size]",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_body_is_refused_by_its_field(case):
    wrong, field = WRONG[case]
    with pytest.raises(InvalidRequestError) as caught:
        rest.read_rest_request("fps", "", wrong)
    assert caught.value.field == field


@pytest.mark.parametrize(
    "data",
    [
        ["x" * 100_000, *("y" for _ in range(50_000))],
        [[["x" * 100_000], *([] for _ in range(50_000))]],
        [1.5] * 50_000,
        [[1, 2, 3]] * 30_000,
    ],
    ids=["strings", "lists", "numbers", "rows"],
)
def test_a_body_becomes_no_more_than_a_multiple_of_its_bytes(data):
    """numpy would make an array of strings as wide as the longest."""
    raw, _ = body(points(data=data))
    tracemalloc.start()
    try:
        with suppress(InvalidRequestError):
            rest.read_rest_request("fps", "", raw)
        assert tracemalloc.get_traced_memory()[1] < 40 * len(raw)
    finally:
        tracemalloc.stop()


def test_binary_data_that_nothing_refers_to():
    with pytest.raises(InvalidRequestError, match="5 bytes more"):
        parse(points(data=CLOUD.tolist()), COUNT, binary=b"12345")


@pytest.mark.parametrize("size", [-1, 3])
def test_a_header_length_beyond_the_body(size):
    with pytest.raises(InvalidRequestError) as caught:
        rest.read_rest_request("fps", "", b"{}", size)
    assert caught.value.field == "Inference-Header-Content-Length"


def test_json_is_bounded():
    with pytest.raises(InvalidRequestError, match="binary_data_size"):
        rest.read_rest_request("fps", "", b"[" * (rest.MAX_BYTES + 1))


HUGE = "1" + "0" * 400


@pytest.mark.parametrize(
    "text",
    [
        f'{{"coveringRadius": {HUGE}}}',
        f'{{"voxelGrid": {{"voxelSize": -{HUGE}}}}}',
        f'{{"voxelGrid": {{"origin": [{HUGE}, 0, 0]}}}}',
        f'{{"lengths": [{HUGE}]}}',
        '{"lengths": [1e999]}',
        '{"lengths": [1.5]}',
        '{"coveringRadius": 1e300}',
        '{"coveringRadius": "x"}',
        '{"coveringRadius": [1]}',
        '{"points": 7}',
        '{"method": "NONE"}',
        '{"method": 1.5}',
        '{"nonfinitePolicy": 1e-9}',
        '{"none": 1}',
        "[" * 4000,
        "[]",
        "{",
    ],
)
def test_what_no_message_holds_is_named_as_wrong(text):
    with pytest.raises(InvalidRequestError, match="a message in JSON"):
        read_json(text.encode(), sampling_pb2.SampleRequest, clouds=4)


def test_a_message_of_many_values_is_refused_before_it_is_parsed():
    for more, refusal in ((16, nullcontext()), (17, pytest.raises(InvalidRequestError))):
        # The object and the list count too, and one comma less than numbers.
        text = json.dumps({"lengths": [1] * (MAX_FIELDS + more - 1)})
        with refusal:
            read_json(text.encode(), sampling_pb2.SampleRequest, clouds=4)
