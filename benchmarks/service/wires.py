"""Requests of each compared server in the fastest form its protocol has, and checks of answers."""

import struct
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from benchmarks.service.load import Call, over_grpc, over_http
from farpoint.inference import open_inference_pb2 as oip
from farpoint.v1 import sampling_pb2 as pb

HEADER = struct.Struct("<ii")
# Samplers round distances in their own ways, which decides between points that are all but tied.
ROUNDING = 1e-5


class WrongAnswerError(Exception):
    """The fault of an answer."""


@dataclass(frozen=True)
class Wire:
    """A method, the request for some samples at a tree height, and the bytes of its answer."""

    method: str
    connect: Callable[[str, str], AbstractAsyncContextManager[Call]]
    encode: Callable[[np.ndarray, int, int], bytes]
    decode: Callable[[bytes], bytes]


def headed(cloud: np.ndarray, samples: int, height: int) -> bytes:
    """The request of peers/handler.py; no samples asks for the request back."""
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


def samples_of(reply: bytes) -> bytes:
    return pb.SampleResponse.FromString(reply).indices.data


def points_of(reply: bytes) -> bytes:
    return pb.SampleResponse.FromString(reply).points.data


INFER = "/inference.GRPCInferenceService/ModelInfer"
BYTES_OVER_GRPC = Wire("/peer.Cloud/Answer", over_grpc, headed, bytes)
BYTES_OVER_HTTP = Wire("/predict", over_http, headed, bytes)
# MLServer turns a tensor of numbers into a list of Python floats; a BYTES element stays whole.
TENSOR_OVER_OIP = Wire(INFER, over_grpc, _as_tensor, _raw_output)
BYTES_OVER_OIP = Wire(INFER, over_grpc, _as_bytes, lambda reply: _raw_output(reply)[4:])


def equals(expected: bytes, decode: Callable[[bytes], bytes]) -> Callable[[bytes], None]:
    """Whether the decoded answer is what is expected."""

    def check(reply: bytes) -> None:
        if decode(reply) != expected:
            raise WrongAnswerError("the answer is not what was sent")

    return check


def farthest_points(
    cloud: np.ndarray, count: int, decode: Callable[[bytes], bytes]
) -> Callable[[bytes], None]:
    """Whether int32 rows are distinct, and each is as far from those before as brute force finds.

    The first may be any: fpsample's bucket sampler does not honour a start index.
    """

    def check(reply: bytes) -> None:
        rows = np.frombuffer(decode(reply), "<i4")
        if len(rows) != count or len(np.unique(rows)) != count:
            raise WrongAnswerError(f"{len(np.unique(rows))} distinct of {len(rows)}, not {count}")
        nearest = np.full(len(cloud), np.inf, np.float32)
        for i, (previous, chosen) in enumerate(pairwise(rows)):
            offsets = cloud - cloud[previous]
            np.minimum(nearest, np.einsum("ij,ij->i", offsets, offsets), out=nearest)
            if nearest[chosen] < nearest.max() * (1 - ROUNDING):
                raise WrongAnswerError(f"sample {i + 1} is not the farthest point")

    return check
