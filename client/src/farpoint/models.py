"""Results of Encode, ModelInfer, ListModels and LoadModel as frozen dataclasses."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from farpoint._types import Array
from farpoint.results import Timings, member_name
from farpoint.v1 import sampling_pb2 as pb
from farpoint.v1 import tensor_pb2


@dataclass(frozen=True, repr=False, eq=False)
class Stage:
    """The M points of a cloud that a stage of an encoder keeps, in order of choice."""

    indices: NDArray[np.int64]
    """(M,) int64, rows of the cloud as passed."""
    points: Array
    """(M, 3), the points at these rows, in the type of the cloud."""
    features: NDArray[np.float32]
    """(M, C) float32, one row per point."""
    counts: NDArray[np.int64]
    """(M,) int64: number of points of the cloud that each one represents; the sum is N."""
    mean_distances: NDArray[np.float32]
    """(M,) float32, in the unit of the coordinates: mean distance to the points of the previous
    stage that each one represents."""

    def __len__(self) -> int:
        return len(self.indices)

    def __repr__(self) -> str:
        return f"Stage(points={len(self)}, features=float32{list(self.features.shape)})"


@dataclass(frozen=True, eq=False)
class Encoding:
    """The stages of an encoder for one cloud of N points."""

    model: str
    stages: tuple[Stage, ...]
    """Stages in order; each keeps a prefix of the points of the previous one."""
    timings: Timings
    request_id: str


@dataclass(frozen=True, repr=False, eq=False)
class Inference:
    """The outputs of a model, by name: ``inference["scores"]``."""

    model: str
    outputs: Mapping[str, Array]
    """Arrays by name: (N, ...) per point, (M, ...) per sample, (...) per cloud; with a leading
    dimension of clouds if the points had one."""
    timings: Timings
    request_id: str

    def __getitem__(self, name: str) -> Array:
        return self.outputs[name]

    def __repr__(self) -> str:
        shapes = ", ".join(f"{k}={v.dtype}{list(v.shape)}" for k, v in self.outputs.items())
        return f"Inference({self.model}: {shapes})"


@dataclass(frozen=True)
class ModelTensor:
    """An input or an output of a model."""

    name: str
    scope: str
    """"point", "sample" or "cloud": it has a row for each."""
    data_type: str
    row_shape: tuple[int, ...]
    """Shape of one row; -1 for any size."""


@dataclass(frozen=True)
class Model:
    """A loaded model: an encoder or an exported one."""

    name: str
    rates: tuple[float, ...]
    """The share of points that each stage of an encoder keeps; empty for others."""
    feature_channels: int
    attribute_channels: int
    """Attributes per point, in addition to the coordinates."""
    parameter_count: int
    inputs: tuple[ModelTensor, ...] = ()
    """Inputs of `infer`, the points first."""
    outputs: tuple[ModelTensor, ...] = ()


def read_model(model: pb.Model) -> Model:
    """Converts a message."""
    return Model(
        name=model.name,
        rates=tuple(model.rates),
        feature_channels=model.feature_channels,
        attribute_channels=model.attribute_channels,
        parameter_count=model.parameter_count,
        inputs=tuple(map(_read_tensor, model.inputs)),
        outputs=tuple(map(_read_tensor, model.outputs)),
    )


def _read_tensor(tensor: pb.ModelTensor) -> ModelTensor:
    return ModelTensor(
        name=tensor.name,
        scope=member_name(pb.TensorScope, tensor.scope),
        data_type=member_name(tensor_pb2.DataType, tensor.data_type),
        row_shape=tuple(tensor.row_shape),
    )
