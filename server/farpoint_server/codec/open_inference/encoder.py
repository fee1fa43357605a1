"""Open Inference messages of a loaded encoder: parsed and validated; and serialized."""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from farpoint_models import EncoderConfig
from farpoint_server.codec.encode import ParsedEncodeRequest
from farpoint_server.codec.open_inference.message import InferMessage
from farpoint_server.codec.open_inference.points import (
    POINT_TYPES,
    VERSION,
    datatype_of,
    flat_rows,
    is_batched,
    parse_points,
)
from farpoint_server.codec.open_inference.tensors import (
    InputTensor,
    model_metadata,
    parse_inputs,
    requested_outputs,
)
from farpoint_server.codec.open_inference.v2 import open_inference_pb2 as pb
from farpoint_server.codec.tensors import TensorView
from farpoint_server.codec.validation import RequestLimits
from farpoint_server.engine.types import Outcome, StageOutput
from farpoint_server.errors import InvalidRequestError

ATTRIBUTE_TYPES = ("FP32", "FP64", "FP16")


def metadata(name: str, config: EncoderConfig) -> pb.ModelMetadataResponse:
    """Points (N, 3) or (B, N, 3), and attributes as many; the tensors of stage i end in `_i`.

    `points_i` has the type of the points that were sent.
    """
    inputs = {"points": ("FP32", [-1, 3])}
    if config.attributes:
        inputs["attributes"] = ("FP32", [-1, config.attributes])
    return model_metadata(name, VERSION, inputs, _outputs(config))


def parse_encoder_request(
    message: InferMessage, config: EncoderConfig, limits: RequestLimits
) -> ParsedEncodeRequest:
    """Validates all that can be validated without looking at a value.

    Raises:
        InvalidRequestError: names the first field that is wrong.
    """
    requested_outputs(message.request, _outputs(config))
    types: dict[str, Sequence[str]] = {"points": POINT_TYPES}
    if config.attributes:
        types["attributes"] = ATTRIBUTE_TYPES
    inputs = parse_inputs(message, types)
    flat, lengths = parse_points(inputs["points"], limits)
    extra = _parse_attributes(inputs, config.attributes) if config.attributes else None
    return ParsedEncodeRequest(flat, extra, lengths, return_points=False)


def serialize_encoder_response(
    request: pb.ModelInferRequest,
    model: str,
    config: EncoderConfig,
    parsed: ParsedEncodeRequest,
    outcome: Outcome[list[StageOutput]],
) -> pb.ModelInferResponse:
    """The answer, with the outputs that were asked for, in that order, raw."""
    arrays = {
        f"{kind}_{i}": array
        for i, stage in enumerate(outcome.result)
        for kind, array in _tensors(parsed, stage).items()
    }
    points_type = datatype_of(request, "points")
    clouds = [len(parsed.lengths)] if is_batched(request) else []
    response = pb.ModelInferResponse(model_name=model, model_version=VERSION, id=request.id)
    outputs = _outputs(config)
    for output in requested_outputs(request, outputs):
        datatype, shape = outputs[output]
        array = arrays[output].reshape([*clouds, *shape])
        if output.startswith("points_"):
            datatype = points_type
        response.outputs.add(name=output, datatype=datatype, shape=array.shape)
        response.raw_output_contents.append(array.tobytes())
    return response


def _outputs(config: EncoderConfig) -> Mapping[str, tuple[str, Sequence[int]]]:
    """Datatype and shape of every output, for one cloud."""
    each_stage: dict[str, tuple[str, Sequence[int]]] = {
        "indices": ("INT32", [-1]),
        "points": ("FP32", [-1, 3]),
        "features": ("FP32", [-1, config.channels]),
        "counts": ("INT32", [-1]),
        "mean_distances": ("FP32", [-1]),
    }
    return {
        f"{name}_{i}": tensor
        for i in range(len(config.rates))
        for name, tensor in each_stage.items()
    }


def _parse_attributes(inputs: Mapping[str, InputTensor], channels: int) -> TensorView:
    attributes = inputs["attributes"]
    shape = (*inputs["points"].shape[:-1], channels)
    if attributes.shape != shape:
        expected = f"{shape}, since the model takes {channels} with each point"
        raise InvalidRequestError("inputs[attributes].shape", expected, attributes.shape)
    return flat_rows(attributes, "inputs[attributes]", 1)


def _tensors(
    parsed: ParsedEncodeRequest, stage: StageOutput
) -> Mapping[str, npt.NDArray[np.generic]]:
    """Little-endian; equal clouds keep equally many points."""
    firsts = parsed.lengths.cumsum() - parsed.lengths
    rows = stage.indices + np.repeat(firsts, stage.lengths)
    return {
        "indices": stage.indices.astype("<i4", copy=False),
        "points": parsed.points.array()[rows],
        "features": stage.features.astype("<f4", copy=False),
        "counts": stage.counts.astype("<i4", copy=False),
        "mean_distances": stage.mean_distances.astype("<f4", copy=False),
    }
