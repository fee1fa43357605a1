"""Open Inference messages of a loaded encoder: parsed and validated; and serialized."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from farpoint.inference import open_inference_pb2 as pb
from farpoint_models import EncoderConfig
from farpoint_server.codec.dtypes import ATTRIBUTE_DTYPES
from farpoint_server.codec.encode import ParsedEncodeRequest
from farpoint_server.codec.open_inference.message import InferMessage
from farpoint_server.codec.open_inference.tensors import (
    POINT_TYPES,
    Sizes,
    datatype_of,
    is_batched,
    make_response,
    parse_inputs,
    parse_points,
    requested_outputs,
    rows_of,
)
from farpoint_server.codec.tensors import RequestLimits
from farpoint_server.compute.work import Outcome
from farpoint_server.errors import InvalidRequestError
from farpoint_server.kinds.encoder import stages_of
from farpoint_server.kinds.model import Outputs

ATTRIBUTE_TYPES = tuple(dtype.inference for dtype in ATTRIBUTE_DTYPES)


def input_sizes(config: EncoderConfig) -> Sizes:
    """Points (N, 3) or (B, N, 3), and as many attributes."""
    points: Sizes = {"points": ("FP32", [-1, 3])}
    if not config.attributes:
        return points
    return {**points, "attributes": ("FP32", [-1, config.attributes])}


def output_sizes(config: EncoderConfig) -> Sizes:
    """The tensors of stage i end in `_i`; `points_i` has the type of the points that were sent."""
    each_stage: Sizes = {
        "indices": ("INT32", [-1]),
        "points": ("FP32", [-1, 3]),
        "features": ("FP32", [-1, config.channels]),
        "counts": ("INT32", [-1]),
        "mean_distances": ("FP32", [-1]),
    }
    stages = range(len(config.rates))
    return {f"{name}_{i}": sizes for i in stages for name, sizes in each_stage.items()}


def parse_encoder_request(
    message: InferMessage, config: EncoderConfig, limits: RequestLimits
) -> ParsedEncodeRequest:
    """Validates everything except values; raises ServiceError."""
    requested_outputs(message.request, output_sizes(config))
    types: dict[str, Sequence[str]] = {"points": POINT_TYPES}
    if config.attributes:
        types["attributes"] = ATTRIBUTE_TYPES
    inputs = parse_inputs(message, types)
    points, lengths = parse_points(inputs["points"], limits)
    attributes = None
    if config.attributes:
        sent = inputs["attributes"]
        shape = (*inputs["points"].shape[:-1], config.attributes)
        if sent.shape != shape:
            expected = f"{shape}, since the model takes {config.attributes} with each point"
            raise InvalidRequestError(f"{sent.field}.shape", expected, sent.shape)
        attributes = rows_of(sent, shape[:-1])
    return ParsedEncodeRequest(points, attributes, lengths, return_points=False)


def serialize_encoder_response(
    request: pb.ModelInferRequest,
    model: str,
    config: EncoderConfig,
    parsed: ParsedEncodeRequest,
    arrived: float,
    outcome: Outcome[Outputs],
) -> pb.ModelInferResponse:
    """The response with the requested outputs, in that order."""
    known, clouds = output_sizes(config), len(parsed.lengths)
    leading = [clouds] if is_batched(request) else []
    firsts = parsed.lengths.cumsum() - parsed.lengths
    stages = stages_of(outcome.result)

    def outputs() -> Iterator[tuple[str, str, npt.NDArray[Any]]]:
        for name in requested_outputs(request, known):
            datatype, shape = known[name]
            kind, _, number = name.rpartition("_")
            stage = stages[int(number)]
            if kind == "points":
                datatype = datatype_of(request, "points")
                rows = stage.indices + np.repeat(firsts, stage.lengths)
                array = parsed.points.array()[rows]
            else:
                array = getattr(stage, kind)
            # Equal clouds keep equally many points.
            yield name, datatype, array.reshape([*leading, *shape])

    return make_response(request, model, outputs(), arrived, outcome)
