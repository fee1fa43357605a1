"""Tensors of Open Inference messages, raw or typed, as bytes; types and shapes are validated."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from farpoint_server.codec.open_inference.message import InferMessage
from farpoint_server.codec.open_inference.v2 import open_inference_pb2 as pb
from farpoint_server.codec.tensors import check_shape
from farpoint_server.codec.wire import Buffer
from farpoint_server.errors import InvalidRequestError, quoted

# The field of InferTensorContents and the size of an element. What has no field travels raw.
TYPES: Mapping[str, tuple[str | None, np.dtype[np.generic]]] = {
    "FP16": (None, np.dtype("<f2")),
    "BF16": (None, np.dtype("<u2")),
    "FP32": ("fp32_contents", np.dtype("<f4")),
    "FP64": ("fp64_contents", np.dtype("<f8")),
    "INT32": ("int_contents", np.dtype("<i4")),
    "INT64": ("int64_contents", np.dtype("<i8")),
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


def parse_inputs(message: InferMessage, wanted: Mapping[str, tuple[str, ...]]) -> list[InputTensor]:
    """The inputs of a request.

    Args:
        message: Its inputs may be in any order.
        wanted: Name of each input, and the datatypes that it may have.

    Returns:
        One for each of `wanted`, in its order.

    Raises:
        InvalidRequestError: there is another, one is missing, or one does not fit its shape.
    """
    places = _places(message.request, wanted)
    if len(message.raw) not in (0, len(places)):
        expected = f"none, or one for each of the {len(places)} inputs"
        raise InvalidRequestError("raw_input_contents", expected, len(message.raw))
    return [_parse_input(message, places[name], name, types) for name, types in wanted.items()]


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
        for parameter in (SHARED_MEMORY, CLASSIFICATION):
            if parameter in output.parameters:
                field = f"outputs[{index}].parameters"
                raise InvalidRequestError(field, "a tensor in the message", parameter)
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


def _places(
    request: pb.ModelInferRequest, wanted: Mapping[str, tuple[str, ...]]
) -> Mapping[str, int]:
    places: dict[str, int] = {}
    for index, tensor in enumerate(request.inputs):
        if tensor.name not in wanted or tensor.name in places:
            expected = f"each of {', '.join(wanted)} once"
            raise InvalidRequestError(f"inputs[{index}].name", expected, quoted(tensor.name))
        places[tensor.name] = index
    for name in wanted:
        if name not in places:
            raise InvalidRequestError("inputs", f"the input {name!r}", "none of this name")
    return places


def _parse_input(
    message: InferMessage, index: int, name: str, types: tuple[str, ...]
) -> InputTensor:
    tensor = message.request.inputs[index]
    field = f"inputs[{name}]"
    if SHARED_MEMORY in tensor.parameters:
        expected = "a tensor in the message, not in shared memory"
        raise InvalidRequestError(f"{field}.parameters", expected, SHARED_MEMORY)
    if tensor.datatype not in types:
        raise InvalidRequestError(
            f"{field}.datatype", f"one of {', '.join(types)}", quoted(tensor.datatype)
        )
    shape = check_shape(tensor.shape, field)
    data = _data(message, index, field)
    size = math.prod(shape) * TYPES[tensor.datatype][1].itemsize
    if len(data) != size:
        expected = f"{size} bytes for {shape} of {tensor.datatype}"
        raise InvalidRequestError(f"{field}.contents", expected, f"{len(data)} bytes")
    return InputTensor(tensor.datatype, shape, data)


def _data(message: InferMessage, index: int, field: str) -> Buffer:
    tensor = message.request.inputs[index]
    if message.raw:
        if index in message.typed or tensor.contents.ByteSize() > 0:
            raise InvalidRequestError(
                f"{field}.contents", "none beside raw_input_contents", "elements"
            )
        return message.raw[index]
    name, dtype = TYPES[tensor.datatype]
    if name is None:
        expected = f"{tensor.datatype} in raw_input_contents"
        raise InvalidRequestError(f"{field}.contents", expected, "no raw contents")
    return message.typed_contents(index, name, dtype)
