"""Open Inference messages: read without a copy of raw data, inputs checked, outputs written."""

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from farpoint.inference import open_inference_pb2 as pb
from farpoint_server.codec import wire
from farpoint_server.codec.dtypes import ELEMENT_TYPES, INFERENCE_TYPES, POINT_DTYPES
from farpoint_server.codec.tensors import RequestLimits, TensorView, check_shape
from farpoint_server.codec.wire import Buffer, UnusualError, tensor_crc, walk
from farpoint_server.codec.wire_limits import limits_of
from farpoint_server.compute.arrays import Int64s
from farpoint_server.compute.work import Outcome
from farpoint_server.errors import InvalidRequestError, UnsupportedError, quoted

VERSION = "1"
POINTS = "points"
POINT_TYPES = tuple(dtype.inference for dtype in POINT_DTYPES)
SHARED_MEMORY = "shared_memory_region"
CLASSIFICATION = "classification"
# Parameters of a request: whether outputs have the parameter `crc32c`, as in farpoint.v1, and the
# response the fields of Timings.
CHECKSUMS, TIMINGS = "return_checksums", "return_timings"
Sizes = Mapping[str, tuple[str, Sequence[int]]]
"""Datatype and shape of each input or output for one cloud; -1 is any size."""
Output: TypeAlias = tuple[str, str, npt.NDArray[Any]]
"""Name, datatype and array."""
_Request, _Contents = pb.ModelInferRequest, pb.InferTensorContents
# Their packed bytes are those of a raw tensor.
_FLOATS = ("fp32_contents", "fp64_contents")
_check = limits_of(_Request)


class InferMessage(NamedTuple):
    """A ModelInferRequest as it arrived."""

    request: pb.ModelInferRequest
    """Without what was cut out."""
    raw: tuple[Buffer, ...]
    """Its `raw_input_contents`, wherever they are."""
    size: int
    """Of the whole message in bytes."""

    def typed_contents(self, index: int, field: str, dtype: "np.dtype[np.generic]") -> Buffer:
        """The elements of an input in one field of its contents, as bytes; none if it is empty."""
        contents = self.request.inputs[index].contents
        if field not in _FLOATS:
            return np.array(getattr(contents, field), dtype).tobytes()
        # Packed by protobuf itself, as converting each element in Python takes 100 times as long.
        alone = _Contents()
        getattr(alone, field).MergeFrom(getattr(contents, field))
        if not alone.ByteSize():
            return b""
        ((_, _, inside, end),) = walk(packed := memoryview(alone.SerializeToString()))
        return packed[inside:end]


def read_infer_message(raw: bytes) -> InferMessage:
    """Parses a serialized ModelInferRequest; raises InvalidRequestError."""
    if len(raw) >= wire.SPLIT_BYTES:
        try:
            return _split(memoryview(raw))
        except UnusualError:
            pass
    return whole(wire.read_message(raw, _Request, _check), len(raw))


def whole(request: pb.ModelInferRequest, size: int = 0) -> InferMessage:
    """A request without cut-out data, of `size` bytes."""
    return InferMessage(request, tuple(request.raw_input_contents), size)


def _split(message: memoryview) -> InferMessage:
    kept: list[Buffer] = []
    raw: list[Buffer] = []
    for number, begin, inside, end in walk(message):
        if number == _Request.RAW_INPUT_CONTENTS_FIELD_NUMBER and inside > begin:
            raw.append(message[inside:end])
        else:
            kept.append(message[begin:end])
    request = wire.read_message(b"".join(kept), _Request, _check)
    return InferMessage(request, tuple(raw), len(message))


def parse_inputs(
    message: InferMessage,
    wanted: Mapping[str, Iterable[str]],
    optional: Mapping[str, Iterable[str]] | None = None,
) -> Mapping[str, TensorView]:
    """The inputs of a request, by name.

    Args:
        message: Its inputs may be in any order.
        wanted: Name of each input, and the datatypes that it may have.
        optional: The same, of inputs that may be left out.
    """
    known = {**wanted, **(optional or {})}
    places: dict[str, int] = {}
    for index, tensor in enumerate(message.request.inputs):
        if tensor.name not in known or tensor.name in places:
            expected = f"each of {', '.join(known)} once"
            raise InvalidRequestError(f"inputs[{index}].name", expected, quoted(tensor.name))
        places[tensor.name] = index
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


def parse_points(
    points: TensorView, limits: RequestLimits, width: int = 3
) -> tuple[TensorView, Int64s]:
    """The points of all clouds, (P, width), and the length of each; raises InvalidRequestError."""
    shape, field = points.shape, f"{points.field}.shape"
    if len(shape) not in (2, 3) or shape[-1] != width:
        raise InvalidRequestError(field, f"(N, {width}) or (B, N, {width})", shape)
    clouds = shape[0] if len(shape) == 3 else 1
    if not 1 <= clouds <= limits.clouds:
        raise InvalidRequestError(field, f"1 to {limits.clouds} clouds", shape)
    if not 1 <= clouds * shape[-2] <= limits.points:
        raise InvalidRequestError(field, f"1 to {limits.points} points", shape)
    return rows_of(points, shape[:-1]), np.full(clouds, shape[-2])


def rows_of(tensor: TensorView, leading: Sequence[int]) -> TensorView:
    """One row for each point of all clouds, (P, ...); raises InvalidRequestError.

    Args:
        tensor: An input.
        leading: The shape of the points without its last size, with which that of the input begins.
    """
    split = len(leading)
    if tensor.shape[:split] != tuple(leading):
        expected = f"({', '.join(map(str, leading))}, ...), a row for each point"
        raise InvalidRequestError(f"{tensor.field}.shape", expected, tensor.shape)
    return tensor._replace(shape=(math.prod(leading), *tensor.shape[split:]), field=POINTS)


def requested_outputs(request: pb.ModelInferRequest, known: Iterable[str]) -> list[str]:
    """Names of the requested outputs; all known ones if the request names none."""
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


def is_batched(request: pb.ModelInferRequest, name: str = POINTS) -> bool:
    """Whether a parsed request, and so its response, has a dimension of clouds."""
    return next(len(tensor.shape) for tensor in request.inputs if tensor.name == name) == 3


def datatype_of(request: pb.ModelInferRequest, name: str) -> str:
    """The datatype of an input of a parsed request."""
    return next(tensor.datatype for tensor in request.inputs if tensor.name == name)


def make_response(
    request: pb.ModelInferRequest,
    model: str,
    outputs: Iterable[Output],
    arrived: float,
    outcome: Outcome[Any],
) -> pb.ModelInferResponse:
    """The response with all outputs, raw."""
    response = pb.ModelInferResponse(model_name=model, model_version=VERSION, id=request.id)
    for name, datatype, array in outputs:
        type_ = INFERENCE_TYPES[datatype]
        data = array.astype(type_.numpy, copy=False).tobytes()
        output = response.outputs.add(name=name, datatype=datatype, shape=array.shape)
        response.raw_output_contents.append(data)
        if _is_set(request, CHECKSUMS):
            crc = tensor_crc(type_.number, array.shape, data)
            output.parameters["crc32c"].int64_param = crc
    if _is_set(request, TIMINGS):
        server_ms = (time.monotonic() - arrived) * 1e3
        times = {"queue": outcome.queue_ms, "compute": outcome.compute_ms, "server": server_ms}
        for name, milliseconds in times.items():
            response.parameters[f"{name}_ms"].double_param = milliseconds
    return response


def _is_set(request: pb.ModelInferRequest, parameter: str) -> bool:
    return parameter in request.parameters and request.parameters[parameter].bool_param


def _refuse_shared_memory(parameters: Mapping[str, pb.InferParameter], field: str) -> None:
    if SHARED_MEMORY in parameters:
        text = "send the tensor in the message; this server maps no shared memory of Triton's"
        raise UnsupportedError(f"{field}.parameters[{SHARED_MEMORY}]: {text}")


def _parse_input(message: InferMessage, index: int, name: str, types: Iterable[str]) -> TensorView:
    tensor = message.request.inputs[index]
    field = f"inputs[{name}]"
    _refuse_shared_memory(tensor.parameters, field)
    if tensor.datatype not in types:
        raise InvalidRequestError(
            f"{field}.datatype", f"one of {', '.join(types)}", quoted(tensor.datatype)
        )
    shape = check_shape(tensor.shape, field)
    data = _data(message, index, field)
    type_ = INFERENCE_TYPES[tensor.datatype]
    size = math.prod(shape) * type_.numpy.itemsize
    if len(data) != size:
        expected = f"{size} bytes for {shape} of {tensor.datatype}"
        raise InvalidRequestError(f"{field}.contents", expected, f"{len(data)} bytes")
    return TensorView.of(type_.number, shape, data, field)


def _data(message: InferMessage, index: int, field: str) -> Buffer:
    tensor = message.request.inputs[index]
    if message.raw:
        if tensor.contents.ByteSize():
            raise InvalidRequestError(
                f"{field}.contents", "none with raw_input_contents", "elements"
            )
        return message.raw[index]
    type_ = INFERENCE_TYPES[tensor.datatype]
    if type_.contents is None:
        expected = f"{tensor.datatype} in raw_input_contents"
        raise InvalidRequestError(f"{field}.contents", expected, "no raw contents")
    return message.typed_contents(index, type_.contents, ELEMENT_TYPES[type_.number])
