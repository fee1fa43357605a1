"""The REST form of Open Inference requests and responses, with Triton's binary data extension.

A body is a JSON object, and behind it the binary data of those tensors that have it, in order. What
carries bodies is up to the caller: from the object on, a request is as one that came over gRPC.
"""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from farpoint_server.codec.fields import Buffer, length_delimited
from farpoint_server.codec.open_inference.message import InferMessage
from farpoint_server.codec.open_inference.tensors import SHARED_MEMORY, TYPES, dtype_of
from farpoint_server.codec.open_inference.v2 import open_inference_pb2 as pb
from farpoint_server.errors import InvalidRequestError, quoted

# Numbers of JSON take some thirty times their size while they are read.
MAX_JSON_BYTES = 16 << 20
BINARY_SIZE = "binary_data_size"
BINARY = "binary_data"
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
    fields = _object(_json(view[:size]), "request")
    request = pb.ModelInferRequest(model_name=model, model_version=version)
    request.id = _text(fields.get("id", ""), "id")
    _fill(request.parameters, fields.get("parameters", {}), "parameters")
    raw, rest = [], view[size:]
    for index, item in enumerate(_list(fields.get("inputs", []), "inputs")):
        data, rest = _add_input(
            request, _object(item, f"inputs[{index}]"), rest, f"inputs[{index}]"
        )
        raw += [] if data is None else [data]
    if len(rest):
        got = f"{len(rest)} bytes more"
        raise InvalidRequestError("inputs", f"a {BINARY_SIZE} for all binary data", got)
    for index, item in enumerate(_list(fields.get("outputs", []), "outputs")):
        field = f"outputs[{index}]"
        output = _object(item, field)
        added = request.outputs.add(name=_text(output.get("name", ""), f"{field}.name"))
        _fill(added.parameters, output.get("parameters", {}), f"{field}.parameters")
    binary = {
        o.name: o.parameters[BINARY].bool_param for o in request.outputs if BINARY in o.parameters
    }
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
        tensor: dict[str, Any] = {
            "name": output.name,
            "datatype": output.datatype,
            "shape": list(output.shape),
        }
        parameters = _plain(output.parameters)
        if SHARED_MEMORY in parameters:
            pass
        elif request.binary.get(output.name, request.all_binary):
            parameters[BINARY_SIZE] = len(data)
            binary.append(data)
        else:
            tensor["data"] = _numbers(output.name, output.datatype, data)
        if parameters:
            tensor["parameters"] = parameters
        fields["outputs"].append(tensor)
    return json.dumps(fields, separators=(",", ":")).encode(), binary


def _add_input(
    request: pb.ModelInferRequest, item: Mapping[str, Any], rest: memoryview, field: str
) -> tuple[Buffer | None, memoryview]:
    """The data of an input, if it is not in shared memory, and what is left of the binary data."""
    added = request.inputs.add(name=_text(item.get("name", ""), f"{field}.name"))
    added.datatype = _text(item.get("datatype", ""), f"{field}.datatype")
    for size in _list(item.get("shape", []), f"{field}.shape"):
        if type(size) is not int or not -(2**63) <= size < 2**63:
            raise InvalidRequestError(f"{field}.shape", "integers", quoted(str(size)))
        added.shape.append(size)
    _fill(added.parameters, item.get("parameters", {}), f"{field}.parameters")
    if SHARED_MEMORY in added.parameters or BINARY_SIZE in added.parameters:
        if "data" in item:
            raise InvalidRequestError(f"{field}.data", "none beside its parameters", "data")
        if SHARED_MEMORY in added.parameters:
            return None, rest
        size = added.parameters[BINARY_SIZE].int64_param
        if not 0 <= size <= len(rest):
            where = f"{field}.parameters[{BINARY_SIZE}]"
            raise InvalidRequestError(where, f"0 to {len(rest)}, what is left of the body", size)
        return rest[:size], rest[size:]
    return _bytes(item, added.datatype, tuple(added.shape), f"{field}.data"), rest


def _bytes(item: Mapping[str, Any], datatype: str, shape: tuple[int, ...], field: str) -> bytes:
    """Numbers in JSON, flat or in lists of lists, as the bytes of a tensor."""
    if datatype not in TYPES or datatype == "BF16":
        raise InvalidRequestError(field, f"{BINARY_SIZE} for {quoted(datatype)}", "numbers")
    data = _list(item.get("data", None), field)
    dtype = dtype_of(datatype)
    kinds = {"f": "iuf", "b": "b"}.get(dtype.kind, "iu")
    try:
        array = np.array(data)
    except ValueError:
        raise InvalidRequestError(field, "lists of equal length", "others") from None
    if array.size and (array.dtype.kind not in kinds):
        raise InvalidRequestError(field, f"numbers of {datatype}", "others")
    if array.ndim > 1 and array.shape != shape:
        raise InvalidRequestError(field, f"{shape}, or one list", array.shape)
    with np.errstate(over="ignore"):
        converted = array.astype(dtype)
    if dtype.kind in "iu" and not np.array_equal(converted, array):
        raise InvalidRequestError(field, f"numbers within {datatype}", "larger ones")
    return converted.tobytes()


def _numbers(name: str, datatype: str, data: Buffer) -> list[Any]:
    """The elements of an output for JSON, flat."""
    array = np.frombuffer(data, dtype_of(datatype))
    if datatype == "BF16" or (array.dtype.kind == "f" and not np.isfinite(array).all()):
        got = datatype if datatype == "BF16" else "NaN or infinity"
        raise InvalidRequestError(f"outputs[{name}]", f"{BINARY}, as JSON has no such number", got)
    return list(array.tolist())


def _json(text: memoryview) -> Any:
    if len(text) > MAX_JSON_BYTES:
        expected = f"at most {MAX_JSON_BYTES} bytes of JSON; send tensors as {BINARY_SIZE}"
        raise InvalidRequestError("request", expected, f"{len(text)} bytes")
    try:
        return json.loads(bytes(text))
    except (ValueError, RecursionError):
        raise InvalidRequestError("request", "a JSON object", f"{len(text)} other bytes") from None


def _object(value: Any, field: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise InvalidRequestError(field, "a JSON object", type(value).__name__)
    return value


def _list(value: Any, field: str) -> list[Any]:
    if not isinstance(value, list):
        raise InvalidRequestError(field, "a JSON list", type(value).__name__)
    return value


def _text(value: Any, field: str) -> str:
    if not isinstance(value, str):
        raise InvalidRequestError(field, "a string", type(value).__name__)
    return value


def _fill(parameters: Any, values: Any, field: str) -> None:
    """Adds the members of a JSON object to a map of InferParameter."""
    for name, value in _object(values, field).items():
        kind = {bool: "bool_param", int: "int64_param", str: "string_param", float: "double_param"}
        if type(value) not in kind or (type(value) is int and not -(2**63) <= value < 2**63):
            expected = "a boolean, a number of 64 bits or a string"
            raise InvalidRequestError(f"{field}[{name[:64]}]", expected, type(value).__name__)
        setattr(parameters[name], kind[type(value)], value)


def _plain(parameters: Mapping[str, pb.InferParameter]) -> dict[str, Any]:
    return {
        name: getattr(value, value.WhichOneof("parameter_choice") or "string_param")
        for name, value in parameters.items()
    }
