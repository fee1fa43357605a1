"""The REST form of Open Inference requests and responses, with Triton's binary data extension.

A body is a JSON object, and behind it the binary data of those tensors that have it, in order. From
the object on, a request is as one that came over gRPC.
"""

import json
from collections.abc import Mapping
from typing import Any

from farpoint.inference import open_inference_pb2 as pb
from farpoint_server.codec.open_inference.json_values import (
    BINARY,
    BINARY_SIZE,
    check_list,
    check_object,
    check_text,
    read_json,
    tensor_bytes,
    tensor_numbers,
)
from farpoint_server.codec.tensors import MAX_DIMENSIONS
from farpoint_server.codec.wire import Buffer, length_delimited
from farpoint_server.codec.wire_limits import MAX_INPUTS, MAX_OUTPUTS
from farpoint_server.errors import InvalidRequestError

ALL_BINARY = "binary_data_output"
_RAW = pb.ModelInferRequest.RAW_INPUT_CONTENTS_FIELD_NUMBER
_KINDS = {bool: "bool_param", int: "int64_param", str: "string_param", float: "double_param"}


def read_rest_request(
    model: str, version: str, body: Buffer, json_size: int | None = None
) -> tuple[pb.ModelInferRequest, list[Buffer]]:
    """The request of a body, and the data of its inputs, which may be views of the body.

    Args:
        model: Name of the model, which the URL has.
        version: Its version there; empty for the server's choice.
        body: The whole body.
        json_size: The header Inference-Header-Content-Length; None without it.
    """
    view = memoryview(body)
    size = len(view) if json_size is None else json_size
    if not 0 <= size <= len(view):
        expected = f"0 to {len(view)}, the bytes of the body"
        raise InvalidRequestError("Inference-Header-Content-Length", expected, size)
    fields = check_object(read_json(view[:size]), "request")
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
