"""Open Inference messages of a loaded program: parsed and validated; and serialized."""

from collections.abc import Mapping, Sequence

from farpoint.v1 import tensor_pb2
from farpoint_models.programs import Manifest, Role
from farpoint_server.codec.infer import Outputs, ParsedInferRequest, check_request, data_type
from farpoint_server.codec.open_inference.message import InferMessage
from farpoint_server.codec.open_inference.points import (
    POINT_TYPES,
    VERSION,
    flat_rows,
    is_batched,
    parse_points,
)
from farpoint_server.codec.open_inference.tensors import (
    TYPES,
    InputTensor,
    model_metadata,
    parse_inputs,
    requested_outputs,
)
from farpoint_server.codec.open_inference.v2 import open_inference_pb2 as pb
from farpoint_server.codec.tensors import TensorView, parse_tensor
from farpoint_server.codec.validation import RequestLimits
from farpoint_server.engine.types import Outcome
from farpoint_server.errors import InvalidRequestError

_NAMES = {type_: name for name, (_, type_) in TYPES.items()}


def metadata(name: str, manifest: Manifest) -> pb.ModelMetadataResponse:
    """The model's own tensors for one cloud; all take a first dimension of clouds, too."""
    inputs: dict[str, tuple[str, Sequence[int]]] = {
        spec.name: (_datatype(spec.dtype), _shape(spec.role, spec.row_shape))
        for spec in (manifest.points, *manifest.extra_inputs)
    }
    return model_metadata(name, VERSION, inputs, _outputs(manifest))


def parse_program_request(
    message: InferMessage, manifest: Manifest, limits: RequestLimits
) -> ParsedInferRequest:
    """Validates all that can be validated without looking at a value.

    Raises:
        InvalidRequestError: names the first field that is wrong.
    """
    wanted = requested_outputs(message.request, _outputs(manifest))
    name = manifest.points.name
    types = {spec.name: TYPES for spec in manifest.extra_inputs}
    inputs = parse_inputs(message, {name: POINT_TYPES, **types})
    flat, lengths = parse_points(inputs[name], limits, name)
    clouds = inputs[name].shape[:-2]
    extra = {
        spec.name: _flat(inputs[spec.name], spec.name, inputs[name].shape[:-1])
        if spec.role is Role.PER_POINT
        else _each_cloud(inputs[spec.name], spec.name, clouds)
        for spec in manifest.extra_inputs
    }
    request = ParsedInferRequest(flat, extra, lengths, wanted)
    check_request(request, manifest)
    return request


def serialize_program_response(
    request: pb.ModelInferRequest,
    model: str,
    manifest: Manifest,
    parsed: ParsedInferRequest,
    outcome: Outcome[Outputs],
) -> pb.ModelInferResponse:
    """The answer, with the outputs that were asked for, in that order, raw.

    Rows have a first dimension of clouds where the points have one. Rows per sample whose number
    differs between the clouds lie end to end instead; an output of the model has their numbers.
    """
    response = pb.ModelInferResponse(model_name=model, model_version=VERSION, id=request.id)
    has_clouds = is_batched(request, manifest.points.name)
    clouds = len(parsed.lengths)
    outputs = _outputs(manifest)
    for name in parsed.outputs:
        array, lengths = outcome.result[name]
        if lengths is None:
            array = array if has_clouds else array[0]
        elif has_clouds and (lengths == lengths[0]).all():
            array = array.reshape(clouds, -1, *array.shape[1:])
        response.outputs.add(name=name, datatype=outputs[name][0], shape=array.shape)
        little = array.astype(array.dtype.newbyteorder("<"), copy=False)
        response.raw_output_contents.append(little.tobytes())
    return response


def _outputs(manifest: Manifest) -> Mapping[str, tuple[str, Sequence[int]]]:
    """Datatype and shape of every output, for one cloud."""
    return {
        spec.name: (_datatype(spec.dtype), _shape(spec.role, spec.row_shape))
        for spec in manifest.outputs
    }


def _datatype(dtype: str) -> str:
    return _NAMES[data_type(dtype)]


def _shape(role: Role, row_shape: Sequence[int | str]) -> list[int]:
    sizes = [size if isinstance(size, int) else -1 for size in row_shape]
    return sizes if role in (Role.PER_CLOUD, Role.COUNTS) else [-1, *sizes]


def _flat(tensor: InputTensor, name: str, rows: Sequence[int]) -> TensorView:
    """One row for each point of all clouds."""
    field = f"inputs[{name}]"
    if tensor.shape[: len(rows)] != tuple(rows):
        expected = f"{tuple(rows)} first, as the points have"
        raise InvalidRequestError(f"{field}.shape", expected, tensor.shape)
    return flat_rows(tensor, field, len(tensor.shape) - len(rows))


def _each_cloud(tensor: InputTensor, name: str, clouds: Sequence[int]) -> TensorView:
    """One row for each cloud; of points without a dimension of clouds, the row itself."""
    shape = tensor.shape if clouds else (1, *tensor.shape)
    whole = tensor_pb2.Tensor(data_type=TYPES[tensor.datatype][1], shape=shape)
    return parse_tensor(whole, f"inputs[{name}]", tensor.data)
