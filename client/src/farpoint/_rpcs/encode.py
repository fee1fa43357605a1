"""The Encode RPC: its request from checked arguments, and `Encoding`s from its response."""

from operator import attrgetter

import numpy as np

from farpoint._arrays import split_batch, split_rows
from farpoint._connection.call import CallContext
from farpoint._rpcs.calls import UnaryRpc
from farpoint._tensors import in_common_dtype, to_arrays, to_tensor
from farpoint._types import Array, CloudAttributes
from farpoint.errors import InternalError, InvalidArgumentError
from farpoint.models import Encoding, Stage
from farpoint.v1 import sampling_pb2 as pb


class EncodeRpc(UnaryRpc[pb.EncodeResponse, Encoding | list[Encoding]]):
    """Encoding of one cloud or a batch; the arguments are those of `Client.encode`."""

    method = attrgetter("sampling.Encode")
    request: pb.EncodeRequest

    def __init__(
        self,
        points: object,
        model: str | None,
        attributes: object,
        checksums: bool = False,
    ) -> None:
        self.checksums = checksums
        self.batch = split_batch(points, attributes)
        clouds = self.batch.clouds
        self.request = pb.EncodeRequest(
            lengths=[len(cloud) for cloud in clouds],
            model=model or "",
            return_checksums=checksums,
        )
        if clouds:
            self.request.points.CopyFrom(to_tensor(in_common_dtype(clouds)))
            if attributes is not None:
                columns = _in_common_width(self.batch.attributes)
                self.request.attributes.CopyFrom(to_tensor(columns))

    def read(self, response: pb.EncodeResponse, context: CallContext) -> Encoding | list[Encoding]:
        """One `Encoding`, or a list for a batch."""
        timings = context.read_timings(response.timings)
        by_stage = [self._stages(stage) for stage in response.stages]
        encodings = [
            Encoding(
                response.model,
                tuple(stages[i] for stages in by_stage),
                timings,
                context.request_id,
            )
            for i in range(len(self.batch.clouds))
        ]
        return encodings[0] if self.batch.single else encodings

    def _stages(self, stage: pb.EncodedStage) -> list[Stage]:
        """A stage of each cloud."""
        clouds, lengths = self.batch.clouds, list(stage.lengths)
        tensors = (stage.indices, stage.features, stage.counts, stage.mean_distances)
        indices, features, counts, distances = to_arrays(*tensors, checksums=self.checksums)
        sizes = {len(indices), len(features), len(counts), len(distances), sum(lengths)}
        if len(lengths) != len(clouds) or len(sizes) != 1 or indices.ndim != 1:
            raise InternalError(
                f"the server answered with {sorted(sizes)} rows for clouds of {lengths} points, "
                f"expected as many of each of {len(clouds)}"
            )
        ends = np.cumsum(lengths)[:-1]
        return [
            Stage(
                indices=rows,
                points=cloud[rows],
                features=part.astype(np.float32),
                counts=count.astype(np.int64),
                mean_distances=distance.astype(np.float32),
            )
            for cloud, rows, part, count, distance in zip(
                clouds,
                split_rows(indices, lengths, clouds),
                np.split(features, ends),
                np.split(counts, ends),
                np.split(distances, ends),
                strict=True,
            )
        ]


def _in_common_width(attributes: list[CloudAttributes]) -> list[Array]:
    arrays = [_channels(values) for values in attributes]
    widths = sorted({array.shape[1] for array in arrays})
    if len(widths) > 1:
        raise InvalidArgumentError(
            f"attributes must have as many values for the points of every cloud, got {widths}",
            field="attributes",
        )
    return arrays


def _channels(values: CloudAttributes) -> Array:
    """(N, A) float32 from an array (N, A) or (N,), or from a dict of arrays in order."""
    if isinstance(values, dict) and values:
        return np.concatenate([_channels(value) for value in values.values()], axis=1)
    array = np.asarray(values)
    if array.ndim > 2 or array.dtype.kind not in "fiub":
        raise InvalidArgumentError(
            f"attributes must be numbers of shape (N, A) or (N,), got {array.dtype} {array.shape}",
            field="attributes",
        )
    return array.reshape(len(array), -1).astype("<f4")
