"""The REST form of Open Inference requests and responses, with Triton's binary data extension.

A body is a JSON object, followed by the binary data of those tensors that have it, in order. The
request that it makes is handled as over gRPC.

Types are checked before numpy sees a value: it would make an array of strings as wide as the
longest, which is gigabytes for a body of some hundred kilobytes.
"""

import json
from collections.abc import Mapping
from itertools import chain
from typing import Any

import numpy as np

from farpoint.inference import open_inference_pb2 as pb
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


def read_rest_request(
    model: str, version: str, body: Buffer, json_size: int | None = None
) -> tuple[pb.ModelInferRequest, list[Buffer]]:
    """The request of a body, and the data of its inputs, which may be views of the body.

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
    fields = check_object(read_rest_json(view[:size]), "request")
    request = pb.ModelInferRequest(model_name=model, model_version=version)
    request.id = check_text(fields.get("id", ""), "id")
    _fill(request.parameters, fields, "parameters")
    raw, rest = [], view[size:]
    for index, item in enumerate(check_list(fields.get("inputs", []), "inputs", MAX_INPUTS)):
        data, rest = _add_input(request, item, rest, f"inputs[{index}]")
        raw.append(data)
    if len(rest):
        got = f"{len(rest)} bytes more"
        raise InvalidRequestError("inputs", f"a {BINARY_SIZE} for all binary data", got)
    for index, item in enumerate(check_list(fields.get("outputs", []), "outputs", MAX_OUTPUTS)):
        field = f"outputs[{index}]"
        output = check_object(item, field)
        added = request.outputs.add(name=check_text(output.get("name", ""), f"{field}.name"))
        _fill(added.parameters, output, f"{field}.parameters")
    return request, raw


def serialize_rest_request(request: pb.ModelInferRequest, raw: list[Buffer]) -> bytes:
    """A request and the data of its inputs as a ModelInferRequest on the wire."""
    chunks: list[Buffer] = [request.SerializeToString()]
    for data in raw:
        chunks += length_delimited(_RAW, [data])
    return b"".join(chunks)


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
    return json.dumps(fields, separators=(",", ":")).encode(), binary


def _add_input(
    request: pb.ModelInferRequest, item: Any, rest: memoryview, field: str
) -> tuple[Buffer, memoryview]:
    """The data of an input, and what is left of the binary data."""
    given = check_object(item, field)
    added = request.inputs.add(name=check_text(given.get("name", ""), f"{field}.name"))
    added.datatype = check_text(given.get("datatype", ""), f"{field}.datatype")
    for size in check_list(given.get("shape", []), f"{field}.shape", MAX_DIMENSIONS):
        if type(size) is not int or not -(2**63) <= size < 2**63:
            got = f"an {type(size).__name__}"
            raise InvalidRequestError(f"{field}.shape", "integers of 64 bits", got)
        added.shape.append(size)
    _fill(added.parameters, given, f"{field}.parameters")
    if BINARY_SIZE not in added.parameters:
        data = tensor_bytes(given, added.datatype, tuple(added.shape), f"{field}.data")
        return data, rest
    if "data" in given:
        raise InvalidRequestError(f"{field}.data", f"none with {BINARY_SIZE}", "data")
    size = added.parameters[BINARY_SIZE].int64_param
    if not 0 <= size <= len(rest):
        where = f"{field}.parameters[{BINARY_SIZE}]"
        raise InvalidRequestError(where, f"0 to {len(rest)}, what is left of the body", size)
    return rest[:size], rest[size:]


def _fill(parameters: Any, given: Mapping[str, Any], field: str) -> None:
    """Adds the JSON object `parameters` of an object to a map of InferParameter."""
    for name, value in check_object(given.get("parameters", {}), field).items():
        where = f"{field}[{check_text(name, field)[:64]}]"
        kind = _KINDS.get(type(value))
        if kind is None or (type(value) is int and not -(2**63) <= value < 2**63):
            expected = "a boolean, a number of 64 bits or a string"
            raise InvalidRequestError(where, expected, type(value).__name__)
        setattr(parameters[name], kind, check_text(value, where) if type(value) is str else value)


def _plain(parameters: Mapping[str, pb.InferParameter]) -> dict[str, Any]:
    return {
        name: getattr(value, value.WhichOneof("parameter_choice") or "string_param")
        for name, value in parameters.items()
    }


def read_rest_json(text: memoryview) -> Any:
    """The value of a JSON text; raises InvalidRequestError if it is invalid or too long."""
    if len(text) > MAX_BYTES:
        expected = f"at most {MAX_BYTES} bytes of JSON; send tensors as {BINARY_SIZE}"
        raise InvalidRequestError("request", expected, f"{len(text)} bytes")
    try:
        return json.loads(bytes(text))
    except (ValueError, RecursionError):
        raise InvalidRequestError("request", "a JSON object", f"{len(text)} other bytes") from None


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


def check_text(value: Any, field: str) -> str:
    """A value that must be text; raises InvalidRequestError."""
    if not isinstance(value, str):
        raise InvalidRequestError(field, "a string", type(value).__name__)
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidRequestError(field, "Unicode text", "half of a surrogate pair") from None
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
