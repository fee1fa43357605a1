"""Requests of `encode` built and answers read, for the sync and the async client."""

from dataclasses import dataclass

import numpy as np

from farpoint import _tensors
from farpoint._arrays import Array
from farpoint._batch import Gathered, split_attributes, split_clouds
from farpoint._plan import Call, check_rows, of_one_type, read_timings
from farpoint.errors import InternalError, InvalidArgumentError
from farpoint.models import Encoding, Stage
from farpoint.v1 import sampling_pb2 as pb


@dataclass(frozen=True)
class EncodePlan:
    """A request of `encode`, with what is needed to read its answer."""

    request: pb.EncodeRequest
    clouds: list[Array]
    single: bool

    @property
    def is_empty(self) -> bool:
        """Whether there is no cloud, so nothing to ask."""
        return not self.clouds

    def read(self, response: pb.EncodeResponse, call: Call) -> Encoding | list[Encoding]:
        """The answer as one `Encoding`, or as a list where a batch was asked for."""
        timings = read_timings(response.timings, call)
        by_stage = [self._stages(stage) for stage in response.stages]
        encodings = [
            Encoding(
                response.model, tuple(stages[i] for stages in by_stage), timings, call.request_id
            )
            for i in range(len(self.clouds))
        ]
        return encodings[0] if self.single else encodings

    def _stages(self, stage: pb.EncodedStage) -> list[Stage]:
        """A stage of each cloud."""
        indices = _tensors.decode(stage.indices).astype(np.int64)
        features = _tensors.decode(stage.features).astype(np.float32)
        counts = _tensors.decode(stage.counts).astype(np.int64)
        distances = _tensors.decode(stage.mean_distances).astype(np.float32)
        rows = {len(indices), len(features), len(counts), len(distances), sum(stage.lengths)}
        if len(stage.lengths) != len(self.clouds) or len(rows) != 1:
            raise InternalError(
                f"the server answered with {sorted(rows)} rows for clouds of "
                f"{list(stage.lengths)} points, expected as many of each of {len(self.clouds)}"
            )
        stages = []
        end = 0
        for cloud, length in zip(self.clouds, stage.lengths, strict=True):
            part = slice(end, end + length)
            end = part.stop
            check_rows(indices[part], cloud)
            stages.append(
                Stage(
                    indices=indices[part],
                    points=cloud[indices[part]],
                    features=features[part],
                    counts=counts[part],
                    mean_distances=distances[part],
                )
            )
        return stages


def plan_encode(points: object, model: str | None, attributes: object) -> EncodePlan:
    """Checks the arguments of `encode` and builds its request.

    Raises:
        InvalidArgumentError: an argument is wrong.
    """
    clouds, single = split_clouds(points)
    request = pb.EncodeRequest(lengths=[len(cloud) for cloud in clouds], model=model or "")
    if clouds:
        request.points.CopyFrom(_tensors.encode(of_one_type(clouds)))
        if attributes is not None:
            per_cloud = split_attributes(attributes, clouds, single)
            request.attributes.CopyFrom(_tensors.encode(_of_one_width(per_cloud)))
    return EncodePlan(request, clouds, single)


def _of_one_width(attributes: list[Gathered]) -> list[Array]:
    arrays = [_channels(values) for values in attributes]
    widths = sorted({array.shape[1] for array in arrays})
    if len(widths) > 1:
        raise InvalidArgumentError(
            f"attributes must have as many values for the points of every cloud, got {widths}",
            field="attributes",
        )
    return arrays


def _channels(values: Gathered) -> Array:
    """(N, A) float32 of an array (N, A) or (N,), or of a dict of such in its order."""
    if isinstance(values, dict) and values:
        return np.concatenate([_channels(value) for value in values.values()], axis=1)
    array = np.asarray(values)
    if array.ndim > 2 or array.dtype.kind not in "fiub":
        raise InvalidArgumentError(
            f"attributes must be numbers of shape (N, A) or (N,), got {array.dtype} {array.shape}",
            field="attributes",
        )
    return array.reshape(len(array), -1).astype("<f4")
