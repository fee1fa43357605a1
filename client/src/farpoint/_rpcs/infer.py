"""The RPC ModelInfer: its request from arrays, and an `Inference` from its response."""

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any

from farpoint._arrays import as_array
from farpoint._connection.call import CallContext
from farpoint._dtypes import TYPES
from farpoint._rpcs.calls import UnaryRpc
from farpoint._tensors import check_payload, to_arrays, wire_type
from farpoint.errors import InternalError, InvalidArgumentError
from farpoint.inference import open_inference_pb2 as oip
from farpoint.models import Inference
from farpoint.v1 import sampling_pb2
from farpoint.v1 import tensor_pb2 as pb

# Requests of one batch that are under way at a time: the server joins them as it joins callers.
CONCURRENCY = 8
_NAMES = {pb.DataType.Value(f"DATA_TYPE_{kind.farpoint}"): kind.open_inference for kind in TYPES}
_NUMBERS = {name: number for number, name in _NAMES.items()}


class InferRpc(UnaryRpc[oip.ModelInferResponse, Inference]):
    """One request to a model; the arguments are those of `Client.infer`."""

    method = attrgetter("inference.ModelInfer")
    request: oip.ModelInferRequest

    def __init__(
        self,
        model: str,
        inputs: Mapping[str, Any],
        outputs: Sequence[str] | None,
        checksums: bool = False,
    ) -> None:
        if not isinstance(inputs, Mapping):
            raise InvalidArgumentError(
                f"inputs must be a mapping of names to arrays, got {type(inputs).__name__}",
                field="inputs",
            )
        self.checksums = checksums
        self.request = oip.ModelInferRequest(model_name=model)
        for name in outputs or ():
            self.request.outputs.add(name=name)
        self.request.parameters["return_timings"].bool_param = True
        if checksums:
            self.request.parameters["return_checksums"].bool_param = True
        arrays = {name: as_array(value, name) for name, value in inputs.items()}
        check_payload(sum(array.nbytes for array in arrays.values()), "inputs")
        for name, array in arrays.items():
            number = wire_type(array.dtype, f"inputs[{name}].datatype")
            self.request.inputs.add(name=name, datatype=_NAMES[number], shape=array.shape)
            little = array.astype(array.dtype.newbyteorder("<"), copy=False)
            self.request.raw_input_contents.append(little.tobytes())

    def read(self, response: oip.ModelInferResponse, context: CallContext) -> Inference:
        """The outputs by name."""
        times = {name: value.double_param for name, value in response.parameters.items()}
        known = {name: times.get(name, 0.0) for name in ("queue_ms", "compute_ms", "server_ms")}
        if len(response.outputs) != len(response.raw_output_contents):
            raise InternalError("the server answered with outputs that are not raw")
        raw = zip(response.outputs, response.raw_output_contents, strict=True)
        tensors = {output.name: _tensor(output, data) for output, data in raw}
        arrays = to_arrays(*tensors.values(), checksums=self.checksums)
        return Inference(
            response.model_name,
            dict(zip(tensors, arrays, strict=True)),
            context.read_timings(sampling_pb2.Timings(**known)),
            context.request_id,
        )


def _tensor(output: oip.ModelInferResponse.InferOutputTensor, data: bytes) -> pb.Tensor:
    if output.datatype not in _NUMBERS:
        raise InternalError(f"the server answered with the unknown type {output.datatype}")
    tensor = pb.Tensor(data_type=_NUMBERS[output.datatype], shape=output.shape, data=data)
    if "crc32c" in output.parameters:
        tensor.crc32c = output.parameters["crc32c"].int64_param
    return tensor
