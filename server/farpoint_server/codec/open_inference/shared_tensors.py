"""Tensors of Open Inference messages in shared memory: inputs are read, outputs written.

As in Triton's extension: the parameters `shared_memory_region`, `shared_memory_byte_size` and,
where it is not 0, `shared_memory_offset` of an input or a requested output.
"""

from collections.abc import Mapping
from typing import NamedTuple

from farpoint_server.codec.open_inference.message import InferMessage
from farpoint_server.codec.open_inference.posix_memory import PosixMemory, PosixRange
from farpoint_server.codec.open_inference.tensors import SHARED_MEMORY
from farpoint_server.codec.open_inference.v2 import open_inference_pb2 as pb
from farpoint_server.errors import InvalidRequestError

SIZE = "shared_memory_byte_size"
OFFSET = "shared_memory_offset"


class SharedTensors(NamedTuple):
    """The ranges of a request, by the place of its input or output."""

    inputs: Mapping[int, PosixRange]
    outputs: Mapping[int, PosixRange]

    @property
    def input_bytes(self) -> int:
        """What will be copied before it is used."""
        return sum(place.size for place in self.inputs.values())


def find_shared_tensors(
    request: pb.ModelInferRequest, memory: PosixMemory, owner: str | None
) -> SharedTensors:
    """Where the tensors of a request are that are not in it.

    Args:
        request: As it arrived.
        memory: The regions.
        owner: Whose regions it may refer to; None if it may refer to none.

    Raises:
        InvalidRequestError: it may not, or there is no such range.
    """
    inputs = {
        index: _find(tensor.parameters, f"inputs[{tensor.name[:64]}]", memory, owner)
        for index, tensor in enumerate(request.inputs)
        if _is_shared(tensor.parameters)
    }
    outputs = {
        index: _find(tensor.parameters, f"outputs[{tensor.name[:64]}]", memory, owner)
        for index, tensor in enumerate(request.outputs)
        if _is_shared(tensor.parameters)
    }
    shared = SharedTensors(inputs, outputs)
    if shared.input_bytes > memory.max_read_bytes:
        expected = f"at most {memory.max_read_bytes} bytes in shared memory"
        raise InvalidRequestError("inputs", expected, shared.input_bytes)
    return shared


def read_shared_inputs(
    message: InferMessage, shared: SharedTensors, memory: PosixMemory
) -> InferMessage:
    """The message with the data of its inputs in shared memory; raises InvalidRequestError."""
    data = {index: memory.read(place) for index, place in shared.inputs.items()}
    return message._replace(shared=data)


def write_shared_outputs(
    response: pb.ModelInferResponse, shared: SharedTensors, memory: PosixMemory
) -> pb.ModelInferResponse:
    """Moves outputs from a response into the ranges that the request has for them.

    What is left of each in the response is its name, type and shape, the range, and raw contents
    that are empty.

    Raises:
        InvalidRequestError: a range is too small; then nothing is written.
    """
    raw = response.raw_output_contents
    for index, place in shared.outputs.items():
        if len(raw[index]) > place.size:
            expected = f"at least {len(raw[index])} bytes"
            field = f"{place.field}.parameters[{SIZE}]"
            raise InvalidRequestError(field, expected, place.size)
    for index, place in shared.outputs.items():
        memory.write(place, raw[index])
        parameters = response.outputs[index].parameters
        parameters[SHARED_MEMORY].string_param = place.region.name
        parameters[SIZE].int64_param = len(raw[index])
        parameters[OFFSET].int64_param = place.offset
        raw[index] = b""
    return response


def _is_shared(parameters: Mapping[str, pb.InferParameter]) -> bool:
    return SHARED_MEMORY in parameters or SIZE in parameters


def _find(
    parameters: Mapping[str, pb.InferParameter], field: str, memory: PosixMemory, owner: str | None
) -> PosixRange:
    if owner is None:
        expected = "a tensor in the message, not in shared memory"
        raise InvalidRequestError(f"{field}.parameters", expected, SHARED_MEMORY)
    for name in (SHARED_MEMORY, SIZE):
        if name not in parameters:
            expected = f"{SHARED_MEMORY} and {SIZE}"
            raise InvalidRequestError(f"{field}.parameters", expected, f"no {name}")
    region = parameters[SHARED_MEMORY].string_param
    offset = _integer(parameters, OFFSET, field) if OFFSET in parameters else 0
    return memory.find(owner, region, offset, _integer(parameters, SIZE, field), field)


def _integer(parameters: Mapping[str, pb.InferParameter], name: str, field: str) -> int:
    kind = parameters[name].WhichOneof("parameter_choice")
    if kind not in ("int64_param", "uint64_param"):
        raise InvalidRequestError(f"{field}.parameters[{name}]", "an integer", kind or "nothing")
    return int(getattr(parameters[name], kind))
