"""Request and response formats of each compared server, in the fastest form its protocol has."""

import struct
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

import numpy as np

from benchmarks.service.load import Call, over_grpc, over_http
from farpoint.inference import open_inference_pb2 as oip

HEADER = struct.Struct("<ii")


@dataclass(frozen=True)
class Wire:
    """A method, the request for some samples at a tree height, and the bytes of its answer."""

    method: str
    connect: Callable[[str, str], AbstractAsyncContextManager[Call]]
    encode: Callable[[np.ndarray, int, int], bytes]
    decode: Callable[[bytes], bytes]


def headed(cloud: np.ndarray, samples: int, height: int) -> bytes:
    """The answer of service_peers/sampling.py; no samples asks for the request back."""
    return HEADER.pack(samples, height) + cloud.tobytes()


def _infer_request(data_type: str, shape: tuple[int, ...], data: bytes) -> bytes:
    tensor = oip.ModelInferRequest.InferInputTensor(name="cloud", datatype=data_type, shape=shape)
    return oip.ModelInferRequest(
        model_name="cloud", inputs=[tensor], raw_input_contents=[data]
    ).SerializeToString()


def _as_tensor(cloud: np.ndarray, _samples: int, _height: int) -> bytes:
    return _infer_request("FP32", cloud.shape, cloud.tobytes())


def _as_bytes(cloud: np.ndarray, samples: int, height: int) -> bytes:
    data = headed(cloud, samples, height)
    return _infer_request("BYTES", (1,), struct.pack("<I", len(data)) + data)


def _raw_output(reply: bytes) -> bytes:
    return oip.ModelInferResponse.FromString(reply).raw_output_contents[0]


def _same(reply: bytes) -> bytes:
    return reply


INFER = "/inference.GRPCInferenceService/ModelInfer"
BYTES_OVER_GRPC = Wire("/peer.Cloud/Answer", over_grpc, headed, _same)
BYTES_OVER_HTTP = Wire("/predict", over_http, headed, _same)
# MLServer turns a tensor of numbers into a list of Python floats; a BYTES element stays whole.
TENSOR_OVER_OIP = Wire(INFER, over_grpc, _as_tensor, _raw_output)
BYTES_OVER_OIP = Wire(INFER, over_grpc, _as_bytes, lambda reply: _raw_output(reply)[4:])
