"""The REST form of Open Inference requests and responses, with Triton's binary data extension.

A body is a JSON object, and behind it the binary data of those tensors that have it, in order. What
carries bodies is up to the caller: from the object on, a request is as one that came over gRPC.
"""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

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
from farpoint_server.codec.open_inference.message import InferMessage
from farpoint_server.codec.wire import Buffer, length_delimited
from farpoint_server.errors import InvalidRequestError, quoted

ALL_BINARY = "binary_data_output"
_RAW = pb.ModelInferRequest.RAW_INPUT_CONTENTS_FIELD_NUMBER


class RestRequest(NamedTuple):
    """An inference request that came as a body."""

    message: InferMessage
    """Its binary tensors are views of the body."""
    all_binary: bool
    """Whether outputs are answered in binary that do not say themselves."""
    binary: Mapping[str, bool]
    """Of outputs that do."""


def read_rest_request(
    model: str, version: str, body: Buffer, json_size: int | None = None
) -> RestRequest:
    """Parses the body of an inference request.

    Args:
        model: Name of the model, which the URL has.
        version: Its version there; empty for the server's choice.
        body: The whole body.
        json_size: The header Inference-Header-Content-Length; None without it.

    Raises:
        InvalidRequestError: it is no such request.
    """
    view = memoryview(body)
    size = len(view) if json_size is None else json_size
    if not 0 <= size <= len(view):
        expected = f"0 to {len(view)}, the bytes of the body"
        raise InvalidRequestError("Inference-Header-Content-Length", expected, size)
    fields = check_object(read_json(view[:size]), "request")
    request = pb.ModelInferRequest(model_name=model, model_version=version)
    request.id = check_text(fields.get("id", ""), "id")
    _fill(request.parameters, fields.get("parameters", {}), "parameters")
    raw = _add_inputs(request, check_list(fields.get("inputs", []), "inputs"), view[size:])
    binary = _add_outputs(request, check_list(fields.get("outputs", []), "outputs"))
    all_binary = ALL_BINARY in request.parameters and request.parameters[ALL_BINARY].bool_param
    return RestRequest(InferMessage(request, tuple(raw), {}, len(view)), all_binary, binary)


def serialize_infer_message(message: InferMessage) -> bytes:
    """A message whose tensors are all raw as a ModelInferRequest on the wire."""
    chunks: list[Buffer] = [message.request.SerializeToString()]
    for data in message.raw:
        chunks += length_delimited(_RAW, [data])
    return b"".join(chunks)


def write_rest_response(
    request: RestRequest, response: pb.ModelInferResponse
) -> tuple[bytes, list[Buffer]]:
    """The JSON object of a response, and the binary data to send behind it.

    Where there is binary data, the size of the object is Inference-Header-Content-Length.

    Raises:
        InvalidRequestError: JSON cannot say a number of it.
    """
    fields: dict[str, Any] = {
        "model_name": response.model_name,
        "model_version": response.model_version,
        "outputs": [],
    }
    if response.id:
        fields["id"] = response.id
    if response.parameters:
        fields["parameters"] = _plain(response.parameters)
    binary: list[Buffer] = []
    for output, data in zip(response.outputs, response.raw_output_contents, strict=True):
        parameters = _plain(output.parameters)
        tensor: dict[str, Any] = {
            "name": output.name,
            "datatype": output.datatype,
            "shape": list(output.shape),
            "parameters": parameters,
        }
        if request.binary.get(output.name, request.all_binary):
            parameters[BINARY_SIZE] = len(data)
            binary.append(data)
        else:
            tensor["data"] = tensor_numbers(output.name, output.datatype, data)
        fields["outputs"].append({name: value for name, value in tensor.items() if value != {}})
    return json.dumps(fields, separators=(",", ":")).encode(), binary


def _add_inputs(request: pb.ModelInferRequest, items: list[Any], rest: memoryview) -> list[Buffer]:
    """Adds inputs; returns their data."""
    raw: list[Buffer] = []
    for index, item in enumerate(items):
        field = f"inputs[{index}]"
        data, rest = _add_input(request, check_object(item, field), rest, field)
        raw.append(data)
    if len(rest):
        got = f"{len(rest)} bytes more"
        raise InvalidRequestError("inputs", f"a {BINARY_SIZE} for all binary data", got)
    return raw


def _add_outputs(request: pb.ModelInferRequest, items: list[Any]) -> Mapping[str, bool]:
    """Adds outputs; returns of those that say it whether they are wanted in binary."""
    binary: dict[str, bool] = {}
    for index, item in enumerate(items):
        field = f"outputs[{index}]"
        output = check_object(item, field)
        added = request.outputs.add(name=check_text(output.get("name", ""), f"{field}.name"))
        _fill(added.parameters, output.get("parameters", {}), f"{field}.parameters")
        if BINARY in added.parameters:
            binary[added.name] = added.parameters[BINARY].bool_param
    return binary


def _add_input(
    request: pb.ModelInferRequest, item: Mapping[str, Any], rest: memoryview, field: str
) -> tuple[Buffer, memoryview]:
    """The data of an input, and what is left of the binary data."""
    added = request.inputs.add(name=check_text(item.get("name", ""), f"{field}.name"))
    added.datatype = check_text(item.get("datatype", ""), f"{field}.datatype")
    for size in check_list(item.get("shape", []), f"{field}.shape"):
        if type(size) is not int or not -(2**63) <= size < 2**63:
            raise InvalidRequestError(f"{field}.shape", "integers", quoted(str(size)))
        added.shape.append(size)
    _fill(added.parameters, item.get("parameters", {}), f"{field}.parameters")
    if BINARY_SIZE in added.parameters:
        if "data" in item:
            raise InvalidRequestError(f"{field}.data", f"none with {BINARY_SIZE}", "data")
        size = added.parameters[BINARY_SIZE].int64_param
        if not 0 <= size <= len(rest):
            where = f"{field}.parameters[{BINARY_SIZE}]"
            raise InvalidRequestError(where, f"0 to {len(rest)}, what is left of the body", size)
        return rest[:size], rest[size:]
    return tensor_bytes(item, added.datatype, tuple(added.shape), f"{field}.data"), rest


def _fill(parameters: Any, values: Any, field: str) -> None:
    """Adds the members of a JSON object to a map of InferParameter."""
    kinds = {bool: "bool_param", int: "int64_param", str: "string_param", float: "double_param"}
    for name, value in check_object(values, field).items():
        where = f"{field}[{check_text(name, field)[:64]}]"
        kind = kinds.get(type(value))
        if kind is None or (kind == "int64_param" and not -(2**63) <= value < 2**63):
            expected = "a boolean, a number of 64 bits or a string"
            raise InvalidRequestError(where, expected, type(value).__name__)
        setattr(parameters[name], kind, check_text(value, where) if kind == kinds[str] else value)


def _plain(parameters: Mapping[str, pb.InferParameter]) -> dict[str, Any]:
    return {
        name: getattr(value, value.WhichOneof("parameter_choice") or "string_param")
        for name, value in parameters.items()
    }
