"""The REST form of Open Inference requests and responses, with Triton's binary data extension.

A body is a JSON object, followed by the binary data of those tensors that have it, in order. The
request that it makes is handled as over gRPC.

Types are checked before numpy sees a value: it would make an array of strings as wide as the
longest, which is gigabytes for a body of some hundred kilobytes.
"""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np

from farpoint.inference import open_inference_pb2 as pb
from farpoint_server.codec import json_form
from farpoint_server.codec.dtypes import INFERENCE_TYPES
from farpoint_server.codec.tensors import MAX_DIMENSIONS
from farpoint_server.codec.wire import Buffer, length_delimited
from farpoint_server.codec.wire_limits import MAX_INPUTS, MAX_OUTPUTS
from farpoint_server.errors import InvalidRequestError, quoted

# Parsing takes thirty times the size of the JSON in memory, and holds the GIL for 0.1 s here.
MAX_BYTES = 1 << 20
# Of a response, whose JSON takes as long.
MAX_NUMBERS = 1 << 17
BINARY_SIZE = "binary_data_size"
BINARY = "binary_data"
# Types of JSON values, by numpy's kind of the elements.
_ELEMENTS: Mapping[str, set[type]] = {"f": {int, float}, "b": {bool}, "i": {int}, "u": {int}}
ALL_BINARY = "binary_data_output"
_RAW = pb.ModelInferRequest.RAW_INPUT_CONTENTS_FIELD_NUMBER
_KINDS = {bool: "bool_param", int: "int64_param", str: "string_param", float: "double_param"}
_INPUT, _OUTPUT = ("name", "datatype", "shape"), ("name",)


def read_rest_request(
    model: str, version: str, body: Buffer, json_size: int | None = None
) -> tuple[pb.ModelInferRequest, bytes]:
    """The request of a body without the data of its inputs, and all of it on the wire.

    Args:
        model: Name of the model in the URL.
        version: Its version in the URL; empty for the server's choice.
        body: The whole body.
        json_size: The header Inference-Header-Content-Length; None without it.
    """
    view = memoryview(body)
    size = len(view) if json_size is None else json_size
    if not 0 <= size <= len(view):
        expected = f"0 to {len(view)}, the bytes of the body"
        raise InvalidRequestError("Inference-Header-Content-Length", expected, size)
    fields = load(view[:size])
    inputs = check_list(fields.get("inputs", []), "inputs", MAX_INPUTS)
    outputs = check_list(fields.get("outputs", []), "outputs", MAX_OUTPUTS)
    parts = {
        "inputs": [_pick(item, _INPUT, f"inputs[{i}]") for i, item in enumerate(inputs)],
        "outputs": [_pick(item, _OUTPUT, f"outputs[{i}]") for i, item in enumerate(outputs)],
    }
    whole = {"model_name": model, "model_version": version, **_pick(fields, ("id",)), **parts}
    request = json_form.parse(whole, pb.ModelInferRequest)
    chunks: list[Buffer] = [request.SerializeToString()]
    rest = view[size:]
    for i, (given, described) in enumerate(zip(inputs, request.inputs, strict=True)):
        data, rest = _data(given, described, rest, f"inputs[{i}]")
        chunks += length_delimited(_RAW, [data])
    if len(rest):
        got = f"{len(rest)} bytes more"
        raise InvalidRequestError("inputs", f"a {BINARY_SIZE} for all binary data", got)
    return request, b"".join(chunks)


def write_rest_response(
    request: pb.ModelInferRequest, response: pb.ModelInferResponse
) -> tuple[bytes, list[Buffer]]:
    """The JSON object of a response, and the binary data to send behind it.

    Where there is binary data, the size of the object is Inference-Header-Content-Length.
    """
    all_binary = ALL_BINARY in request.parameters and request.parameters[ALL_BINARY].bool_param
    asked: dict[str, Any] = {output.name: output.parameters for output in request.outputs}
    outputs: list[dict[str, Any]] = []
    binary: list[Buffer] = []
    for output, data in zip(response.outputs, response.raw_output_contents, strict=True):
        tensor: dict[str, Any] = {
            "name": output.name,
            "datatype": output.datatype,
            "shape": list(output.shape),
        }
        parameters = _plain(output.parameters)
        wanted = asked.get(output.name, {})
        if wanted[BINARY].bool_param if BINARY in wanted else all_binary:
            parameters[BINARY_SIZE] = len(data)
            binary.append(data)
        else:
            tensor["data"] = tensor_numbers(output.name, output.datatype, data)
        outputs.append({**tensor, "parameters": parameters} if parameters else tensor)
    fields = {
        "model_name": response.model_name,
        "model_version": response.model_version,
        "outputs": outputs,
        **({"id": response.id} if response.id else {}),
        **({"parameters": _plain(response.parameters)} if response.parameters else {}),
    }
    return json_form.dump(fields), binary


def _data(
    given: Mapping[str, Any],
    described: pb.ModelInferRequest.InferInputTensor,
    rest: memoryview,
    field: str,
) -> tuple[Buffer, memoryview]:
    """The data of an input, and what is left of the binary data."""
    if BINARY_SIZE not in described.parameters:
        shape = tuple(described.shape)
        return tensor_bytes(given, described.datatype, shape, f"{field}.data"), rest
    if "data" in given:
        raise InvalidRequestError(f"{field}.data", f"none with {BINARY_SIZE}", "data")
    size = described.parameters[BINARY_SIZE].int64_param
    if not 0 <= size <= len(rest):
        where = f"{field}.parameters[{BINARY_SIZE}]"
        raise InvalidRequestError(where, f"0 to {len(rest)}, what is left of the body", size)
    return rest[:size], rest[size:]


def _pick(item: Any, names: Sequence[str], field: str = "") -> dict[str, Any]:
    """These fields of a JSON object and its parameters, for protobuf's JSON form."""
    given = check_object(item, field)
    check_list(given.get("shape", []), f"{field}.shape", MAX_DIMENSIONS)
    where, typed = f"{field}.parameters".lstrip("."), {}
    for name, value in check_object(given.get("parameters", {}), where).items():
        if type(value) not in _KINDS:
            got = type(value).__name__
            raise InvalidRequestError(where, "booleans, numbers and strings", got)
        typed[name] = {_KINDS[type(value)]: value}
    return {**{name: given[name] for name in names if name in given}, "parameters": typed}


def _plain(parameters: Mapping[str, pb.InferParameter]) -> dict[str, Any]:
    return {
        name: getattr(value, value.WhichOneof("parameter_choice") or "string_param")
        for name, value in parameters.items()
    }


def load(text: memoryview) -> dict[str, Any]:
    """The object of a JSON text; raises InvalidRequestError if it is invalid or too long."""
    if len(text) > MAX_BYTES:
        expected = f"at most {MAX_BYTES} bytes of JSON; send tensors as {BINARY_SIZE}"
        raise InvalidRequestError("request", expected, f"{len(text)} bytes")
    return json_form.load(bytes(text))


def check_object(value: Any, field: str) -> Mapping[str, Any]:
    """A value that must be an object; raises InvalidRequestError."""
    if not isinstance(value, dict):
        raise InvalidRequestError(field, "a JSON object", type(value).__name__)
    return value


def check_list(value: Any, field: str, most: int | None = None) -> list[Any]:
    """A value that must be a list of bounded length; raises InvalidRequestError."""
    if not isinstance(value, list):
        raise InvalidRequestError(field, "a JSON list", type(value).__name__)
    if most is not None and len(value) > most:
        raise InvalidRequestError(field, f"at most {most}", len(value))
    return value


def tensor_bytes(
    item: Mapping[str, Any], datatype: str, shape: tuple[int, ...], field: str
) -> bytes:
    """The `data` of an input, flat or in lists of lists, as the bytes of a tensor."""
    if datatype not in INFERENCE_TYPES:
        expected = f"one of {', '.join(INFERENCE_TYPES)}"
        raise InvalidRequestError(
            f"{field.removesuffix('data')}datatype", expected, quoted(datatype)
        )
    if datatype == "BF16":
        raise InvalidRequestError(field, f"{BINARY_SIZE} for BF16", "numbers")
    elements = check_list(item.get("data", None), field)
    sizes = [len(elements)]
    while elements and set(map(type, elements)) == {list}:
        if len(set(map(len, elements))) > 1:
            raise InvalidRequestError(field, "lists of equal length", "others")
        sizes.append(len(elements[0]))
        elements = list(chain.from_iterable(elements))
    if len(sizes) > 1 and tuple(sizes) != shape:
        raise InvalidRequestError(field, f"{shape}, or one list", tuple(sizes))
    dtype = INFERENCE_TYPES[datatype].numpy
    if not set(map(type, elements)) <= _ELEMENTS[dtype.kind]:
        raise InvalidRequestError(field, f"numbers of {datatype}", "others")
    if elements and dtype.kind in "iu":
        bounds = np.iinfo(dtype)
        if not (bounds.min <= min(elements) and max(elements) <= bounds.max):
            raise InvalidRequestError(field, f"numbers within {datatype}", "larger ones")
    try:
        with np.errstate(over="ignore"):
            wide = np.array(elements, np.float64 if dtype.kind == "f" else dtype)
            return wide.astype(dtype).tobytes()
    except OverflowError:  # an integer that no double holds
        raise InvalidRequestError(field, f"numbers within {datatype}", "larger ones") from None


def tensor_numbers(name: str, datatype: str, data: Buffer) -> list[Any]:
    """The elements of an output for JSON, flat; raises InvalidRequestError if JSON has no form."""
    array = np.frombuffer(data, INFERENCE_TYPES[datatype].numpy)
    if array.size > MAX_NUMBERS:
        expected = f"{BINARY} for more than {MAX_NUMBERS} numbers"
        raise InvalidRequestError(f"outputs[{name}]", expected, array.size)
    if datatype == "BF16" or (array.dtype.kind == "f" and not np.isfinite(array).all()):
        got = datatype if datatype == "BF16" else "NaN or infinity"
        raise InvalidRequestError(f"outputs[{name}]", f"{BINARY}, as JSON has no such number", got)
    return list(array.tolist())
