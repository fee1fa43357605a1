"""The clouds of a request to a model, rows first, and the outputs for them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from farpoint_models.programs import Manifest
from farpoint_models.programs.calls import Cloud
from farpoint_server.compute.arrays import Array, Int64s, halves, joined


@dataclass(frozen=True)
class ModelInput:
    """The validated clouds of one request to a model, concatenated, in the model's types."""

    lengths: Int64s
    """Shape (B,): points of each cloud."""
    rows: Mapping[str, Array]
    """By input, including the coordinates: shape (P, ...)."""
    values: Mapping[str, Array] = field(default_factory=dict)
    """By input: shape (B, ...), one for each cloud."""

    def halves(self) -> "Iterator[ModelInput]":
        """Two requests of about as many clouds."""
        for rows, clouds in halves(self.lengths):
            yield ModelInput(
                self.lengths[clouds],
                {name: array[rows] for name, array in self.rows.items()},
                {name: array[clouds] for name, array in self.values.items()},
            )


class ModelOutput(NamedTuple):
    """One output of a model for the clouds of one request."""

    values: Array
    """Shape (R, ...): rows of all clouds; or (B, ...)."""
    lengths: Int64s | None
    """Shape (B,): rows of each cloud; None where each cloud has one value."""


def split(request: ModelInput) -> list[Cloud]:
    """The clouds of a request, as views."""
    clouds, end = [], 0
    for index, length in enumerate(request.lengths.tolist()):
        part = slice(end, end + length)
        end = part.stop
        rows = {name: array[part] for name, array in request.rows.items()}
        values = {name: array[index] for name, array in request.values.items()}
        clouds.append(Cloud(length, rows, values))
    return clouds


def merged(manifest: Manifest, clouds: Sequence[Mapping[str, Array]]) -> dict[str, ModelOutput]:
    """Joins the outputs of a request's clouds."""
    outputs = {}
    for spec in manifest.outputs:
        arrays = [cloud[spec.name] for cloud in clouds]
        if spec.row_axis is None:
            values = np.stack(arrays) if len(arrays) > 1 else arrays[0][None]  # ten times as fast
            outputs[spec.name] = ModelOutput(values, None)
            continue
        lengths = np.array([len(array) for array in arrays])
        outputs[spec.name] = ModelOutput(joined(arrays), lengths)
    return outputs
