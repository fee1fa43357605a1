"""Tensors of Open Inference messages, raw or typed, as bytes; types and shapes are validated."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from farpoint.v1 import tensor_pb2
from farpoint_server.codec.open_inference.message import InferMessage
from farpoint_server.codec.open_inference.v2 import open_inference_pb2 as pb
from farpoint_server.codec.tensors import check_shape
from farpoint_server.codec.wire import ELEMENT_TYPES, Buffer
from farpoint_server.errors import InvalidRequestError, UnsupportedError, quoted

# The field of InferTensorContents, and the type in farpoint.v1. What has no field travels raw.
TYPES: Mapping[str, tuple[str | None, tensor_pb2.DataType.ValueType]] = {
    "FP16": (None, tensor_pb2.DATA_TYPE_FLOAT16),
    "BF16": (None, tensor_pb2.DATA_TYPE_BFLOAT16),
    "FP32": ("fp32_contents", tensor_pb2.DATA_TYPE_FLOAT32),
    "FP64": ("fp64_contents", tensor_pb2.DATA_TYPE_FLOAT64),
    "INT8": (None, tensor_pb2.DATA_TYPE_INT8),
    "INT16": (None, tensor_pb2.DATA_TYPE_INT16),
    "INT32": ("int_contents", tensor_pb2.DATA_TYPE_INT32),
    "INT64": ("int64_contents", tensor_pb2.DATA_TYPE_INT64),
    "UINT8": (None, tensor_pb2.DATA_TYPE_UINT8),
    "UINT16": (None, tensor_pb2.DATA_TYPE_UINT16),
    "UINT32": ("uint_contents", tensor_pb2.DATA_TYPE_UINT32),
    "UINT64": ("uint64_contents", tensor_pb2.DATA_TYPE_UINT64),
    "BOOL": ("bool_contents", tensor_pb2.DATA_TYPE_BOOL),
}
SHARED_MEMORY = "shared_memory_region"
CLASSIFICATION = "classification"
PLATFORM = "farpoint"


@dataclass(frozen=True)
class InputTensor:
    """An input whose data is as long as its shape says."""

    datatype: str
    shape: tuple[int, ...]
    data: Buffer


def dtype_of(datatype: str) -> "np.dtype[np.generic]":
    """The elements of a datatype in numpy, little-endian; bfloat16 as its bits."""
    return ELEMENT_TYPES[TYPES[datatype][1]]


def parse_inputs(
    message: InferMessage,
    wanted: Mapping[str, Iterable[str]],
    optional: Mapping[str, Iterable[str]] | None = None,
) -> Mapping[str, InputTensor]:
    """The inputs of a request, by name.

    Args:
        message: Its inputs may be in any order.
        wanted: Name of each input, and the datatypes that it may have.
        optional: The same, of inputs that may be left out.

    Raises:
        InvalidRequestError: there is another, one is missing, or one does not fit its shape.
    """
    known = {**wanted, **(optional or {})}
    places = _places(message.request, known)
    for name in wanted:
        if name not in places:
            raise InvalidRequestError("inputs", f"the input {name!r}", "none of this name")
    if len(message.raw) not in (0, len(places)):
        expected = f"none, or one for each of the {len(places)} inputs"
        raise InvalidRequestError("raw_input_contents", expected, len(message.raw))
    return {
        name: _parse_input(message, places[name], name, types)
        for name, types in known.items()
        if name in places
    }


def requested_outputs(request: pb.ModelInferRequest, known: Iterable[str]) -> list[str]:
    """Names of the outputs that are asked for; all that are known if none is.

    Raises:
        InvalidRequestError: there is no such output, or it cannot be given as is asked.
    """
    names = list(known)
    if len(request.outputs) > len(names):
        raise InvalidRequestError("outputs", f"at most {len(names)}", len(request.outputs))
    for index, output in enumerate(request.outputs):
        if output.name not in names:
            expected = f"one of {', '.join(names)}"
            raise InvalidRequestError(f"outputs[{index}].name", expected, quoted(output.name))
        _refuse_shared_memory(output.parameters, f"outputs[{index}]")
        if CLASSIFICATION in output.parameters:
            field = f"outputs[{index}].parameters"
            raise InvalidRequestError(field, "a tensor as it is", CLASSIFICATION)
    return [output.name for output in request.outputs] or names


def model_metadata(
    name: str,
    version: str,
    inputs: Mapping[str, tuple[str, Sequence[int]]],
    outputs: Mapping[str, tuple[str, Sequence[int]]],
) -> pb.ModelMetadataResponse:
    """What a model takes and gives: datatype and shape of each, -1 where any size will do."""
    tensor = pb.ModelMetadataResponse.TensorMetadata
    return pb.ModelMetadataResponse(
        name=name,
        versions=[version],
        platform=PLATFORM,
        inputs=[tensor(name=n, datatype=type_, shape=s) for n, (type_, s) in inputs.items()],
        outputs=[tensor(name=n, datatype=type_, shape=s) for n, (type_, s) in outputs.items()],
    )


def _refuse_shared_memory(parameters: Mapping[str, pb.InferParameter], field: str) -> None:
    if SHARED_MEMORY in parameters:
        text = "send the tensor in the message; this server maps no shared memory of Triton's"
        raise UnsupportedError(f"{field}.parameters[{SHARED_MEMORY}]: {text}")


def _places(request: pb.ModelInferRequest, known: Iterable[str]) -> Mapping[str, int]:
    places: dict[str, int] = {}
    for index, tensor in enumerate(request.inputs):
        if tensor.name not in known or tensor.name in places:
            expected = f"each of {', '.join(known)} once"
            raise InvalidRequestError(f"inputs[{index}].name", expected, quoted(tensor.name))
        places[tensor.name] = index
    return places


def _parse_input(message: InferMessage, index: int, name: str, types: Iterable[str]) -> InputTensor:
    tensor = message.request.inputs[index]
    field = f"inputs[{name}]"
    _refuse_shared_memory(tensor.parameters, field)
    if tensor.datatype not in types:
        raise InvalidRequestError(
            f"{field}.datatype", f"one of {', '.join(types)}", quoted(tensor.datatype)
        )
    shape = check_shape(tensor.shape, field)
    data = _data(message, index, field)
    size = math.prod(shape) * dtype_of(tensor.datatype).itemsize
    if len(data) != size:
        expected = f"{size} bytes for {shape} of {tensor.datatype}"
        raise InvalidRequestError(f"{field}.contents", expected, f"{len(data)} bytes")
    return InputTensor(tensor.datatype, shape, data)


def _data(message: InferMessage, index: int, field: str) -> Buffer:
    tensor = message.request.inputs[index]
    is_typed = index in message.typed or tensor.contents.ByteSize() > 0
    if message.raw:
        if is_typed:
            raise InvalidRequestError(
                f"{field}.contents", "none beside raw_input_contents", "elements"
            )
        return message.raw[index]
    name, _ = TYPES[tensor.datatype]
    if name is None:
        expected = f"{tensor.datatype} in raw_input_contents"
        raise InvalidRequestError(f"{field}.contents", expected, "no raw contents")
    return message.typed_contents(index, name, dtype_of(tensor.datatype))
