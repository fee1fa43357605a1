"""A request through an encoder: the clouds of about one size together, padded to the largest."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from farpoint_models import DensityEncoder
from farpoint_server.engine.model_types import ModelInput, Stage, join
from farpoint_server.engine.transfer.card import Array
from farpoint_server.engine.transfer.pipeline import Pipeline
from farpoint_server.engine.types import Int64s
from farpoint_server.memory.task import Task

# Rows of one padded batch. More do not make a forward faster, only larger.
GROUP_ROWS = 1 << 16
# Tensors of (samples, neighbors, hidden) that a stage holds at once, as seen on a CPU.
NEIGHBORHOOD_TENSORS = 8


@dataclass(frozen=True)
class Piece:
    """Clouds of one request, and what they go through."""

    encoder: DensityEncoder
    clouds: ModelInput
    pipeline: Pipeline[Any] | None = None
    """To the card that the encoder is on; None for a CPU."""


def groups(lengths: Int64s) -> Iterator[Int64s]:
    """The clouds that share a forward, shortest first: at most half of its rows are padding."""
    order = np.argsort(lengths, kind="stable")
    begin = 0
    for end in range(1, len(order) + 1):
        if end < len(order):
            longest = lengths[order[end]]
            rows = longest * (end - begin + 1)
            if longest <= 2 * lengths[order[begin]] and rows <= GROUP_ROWS:
                continue
        yield order[begin:end]
        begin = end


def encode(piece: Piece) -> list[Stage]:
    """Every stage of the encoder for all clouds, in host memory."""
    clouds: dict[int, list[Stage]] = {}
    for group in groups(piece.clouds.lengths):
        clouds.update(zip(group.tolist(), _encode_group(piece, group), strict=True))
    in_order = [clouds[cloud] for cloud in range(len(clouds))]
    return [join(stages) for stages in zip(*in_order, strict=True)]


def _encode_group(piece: Piece, group: Int64s) -> list[list[Stage]]:
    lengths = piece.clouds.lengths[group]
    size, width = int(lengths.max()), piece.clouds.attributes.shape[1]
    points = np.zeros((len(group), size, 3), np.float32)
    attributes = np.zeros((len(group), size, width), np.float32)
    begins = (piece.clouds.lengths.cumsum() - piece.clouds.lengths)[group]
    for i, (begin, length) in enumerate(zip(begins, lengths, strict=True)):
        points[i, :length] = piece.clouds.points[begin : begin + length]
        attributes[i, :length] = piece.clouds.attributes[begin : begin + length]
    inputs: list[Array] = [points, attributes]
    if (lengths < size).any():
        inputs.append(lengths)
    stages = [_split(stage) for stage in _run(piece, inputs)]
    return [list(stages_of) for stages_of in zip(*stages, strict=True)]


def _run(piece: Piece, inputs: Sequence[Array]) -> Iterator[Sequence[Array]]:
    """Of each stage indices, counts, features, mean distances and lengths, in host memory."""

    def kernel(
        points: torch.Tensor, attributes: torch.Tensor, lengths: torch.Tensor | None = None
    ) -> list[torch.Tensor]:
        outputs = []
        for stage in piece.encoder(points, attributes.mT, lengths=lengths):
            features, distances = stage.features.mT.float(), stage.mean_distance.float()
            outputs += [stage.indices, stage.counts, features.contiguous(), distances]
            outputs += [] if stage.lengths is None else [stage.lengths]
        return outputs

    if piece.pipeline is None:
        with torch.inference_mode():
            arrays = [output.numpy() for output in kernel(*map(torch.from_numpy, inputs))]
    else:
        arrays = piece.pipeline.run([[array] for array in inputs], kernel, list).result()
    width = len(arrays) // len(piece.encoder.config.rates)
    return (arrays[i : i + width] for i in range(0, len(arrays), width))


def _split(stage: Sequence[Array]) -> list[Stage]:
    """A stage of each cloud by itself, without padding."""
    indices, counts, features, distances = stage[:4]
    lengths = stage[4].tolist() if len(stage) > 4 else [indices.shape[1]] * len(indices)
    return [
        Stage(np.array([n]), indices[i, :n], features[i, :n], counts[i, :n], distances[i, :n])
        for i, n in enumerate(lengths)
    ]


def _predict(pieces: Sequence[Piece]) -> int:
    return sum(max(_group_bytes(p, g) for g in groups(p.clouds.lengths)) for p in pieces)


def _group_bytes(piece: Piece, group: Int64s) -> int:
    """Bytes of the widest stage, the first: all points, and the neighborhoods of its samples."""
    config = piece.encoder.config
    rows = len(group) * int(piece.clouds.lengths[group].max())
    each_point = 3 * 3 + 2 * (1 + config.attributes + config.channels)
    each_sample = config.neighbors * (config.hidden * NEIGHBORHOOD_TENSORS + config.channels)
    return int(4 * rows * (each_point + config.rates[0] * each_sample))


def _halve(piece: Piece) -> tuple[Piece, Piece] | None:
    """Two pieces of about as many clouds; None for a single cloud."""
    clouds = piece.clouds
    middle = len(clouds.lengths) // 2
    if middle == 0:
        return None
    row = int(clouds.lengths[:middle].sum())
    left = ModelInput(clouds.points[:row], clouds.attributes[:row], clouds.lengths[:middle])
    right = ModelInput(clouds.points[row:], clouds.attributes[row:], clouds.lengths[middle:])
    return replace(piece, clouds=left), replace(piece, clouds=right)


def _join(_: Piece, left: list[Stage], right: list[Stage]) -> list[Stage]:
    return [join(pair) for pair in zip(left, right, strict=True)]


TASK: Task[Piece, list[Stage]] = Task(
    lambda pieces: [encode(piece) for piece in pieces], _predict, _halve, _join
)
