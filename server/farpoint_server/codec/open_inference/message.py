"""ModelInferRequest messages: raw data of tensors is cut out of the received bytes."""

from typing import NamedTuple

import numpy as np

from farpoint.inference import open_inference_pb2 as pb
from farpoint_server.codec import wire
from farpoint_server.codec.wire import Buffer, UnusualError, walk
from farpoint_server.codec.wire_limits import limits_of

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
