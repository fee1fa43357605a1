"""The Infer RPC: its request from checked arguments, and `Inference`s from its response."""

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any

import numpy as np

from farpoint._arrays import as_array, split_batch
from farpoint._call import CallContext
from farpoint._rpcs.calls import UnaryRpc
from farpoint._tensors import Checksums, points_to_tensor, to_arrays, to_tensor
from farpoint._types import Array
from farpoint.errors import InternalError, InvalidArgumentError
from farpoint.models import Inference
from farpoint.v1 import sampling_pb2 as pb


class InferRpc(UnaryRpc[pb.InferResponse, Inference | list[Inference]]):
    """One cloud or a batch through a program; the arguments are those of `Client.infer`."""

    method = attrgetter("sampling.Infer")
    request: pb.InferRequest

    def __init__(
        self,
        model: str,
        points: object,
        inputs: Mapping[str, Any],
        outputs: Sequence[str] | None,
        checksums: Checksums = Checksums.OFF,
    ) -> None:
        self.checksums = checksums
        self.batch = split_batch(points, None)
        clouds = self.batch.clouds
        self.request = pb.InferRequest(
            model=model,
            lengths=[len(cloud) for cloud in clouds],
            outputs=outputs or (),
            return_checksums=checksums.are_wanted,
        )
        if clouds:
            self.request.points.CopyFrom(points_to_tensor(clouds))
            for name, value in inputs.items():
                tensor = to_tensor(self._rows(name, value))
                self.request.inputs.add(name=name).values.CopyFrom(tensor)

    def read(self, response: pb.InferResponse, context: CallContext) -> Inference | list[Inference]:
        """One `Inference`, or a list where a batch was asked for."""
        timings = context.read_timings(response.timings)
        outputs = {output.name: self._each_cloud(output) for output in response.outputs}
        inferences = [
            Inference(
                response.model,
                {name: arrays[i] for name, arrays in outputs.items()},
                timings,
                context.request_id,
            )
            for i in range(len(self.batch.clouds))
        ]
        return inferences[0] if self.batch.single else inferences

    def _rows(self, name: str, value: Any) -> list[Array]:
        """An input of all clouds as arrays to be stacked: rows of each, or one value for each."""
        clouds = self.batch.clouds
        if self.batch.single:
            values = [as_array(value, name)]
        else:
            entries = value if isinstance(value, (list, tuple)) else list(as_array(value, name))
            if len(entries) != len(clouds):
                raise InvalidArgumentError(
                    f"{name} must have one entry per cloud ({len(clouds)}), got {len(entries)}",
                    field=name,
                )
            values = [as_array(entry, name) for entry in entries]
        has_rows = all(
            array.ndim and len(array) == len(cloud)
            for array, cloud in zip(values, clouds, strict=True)
        )
        rows = values if has_rows else [array[None] for array in values]
        if len({array.shape[1:] for array in rows}) > 1:
            shapes = sorted({array.shape for array in rows})
            raise InvalidArgumentError(
                f"{name} must have rows of one shape for every cloud, got {shapes}", field=name
            )
        dtype = np.result_type(*rows).newbyteorder("<")
        return [array.astype(dtype, copy=False) for array in rows]

    def _each_cloud(self, output: pb.InferOutput) -> Sequence[Array]:
        (values,) = to_arrays(output.values, checksums=self.checksums)
        clouds, lengths = len(self.batch.clouds), list(output.lengths)
        has_rows = output.scope != pb.TENSOR_SCOPE_CLOUD
        if (
            values.ndim == 0
            or (has_rows and len(lengths) != clouds)
            or len(values) != (sum(lengths) if has_rows else clouds)
        ):
            raise InternalError(
                f"the server answered with {output.name} {list(values.shape)} in {lengths} rows, "
                f"expected those of {clouds} clouds"
            )
        return np.split(values, np.cumsum(lengths)[:-1]) if has_rows else list(values)
