"""The forward pass of an encoder for one request: clouds of similar size batched and padded."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from farpoint_models import DensityEncoder
from farpoint_server.engine.transfer.buffers import Array
from farpoint_server.engine.transfer.pipeline import Pipeline
from farpoint_server.engine.types import ModelInput, SoloWork, StageOutput, concatenated
from farpoint_server.models.batching import Cloud, groups, padded, split

# Tensors of (samples, neighbors, hidden) that a stage holds at once, as seen on a CPU.
NEIGHBORHOOD_TENSORS = 8
# A forward pass on one core: its layers, and each byte of its widest stage. Within a quarter for
# the shipped encoder, from 10 to 16,384 points (CPU time, AMD EPYC).
FORWARD_NS, BYTE_NS = 5_000_000, 2.4
# Assumed speed of a GPU over a CPU until its batches are measured; not measured itself.
GPU_SPEED = 10


@dataclass(frozen=True)
class EncodeWork(SoloWork[list[StageOutput]]):
    """One Encode request, with a copy of the encoder on each device."""

    encoders: Mapping[torch.device, DensityEncoder]
    clouds: ModelInput
    cost_key: str = "encode"

    @property
    def point_count(self) -> int:
        return int(self.clouds.lengths.sum())

    @property
    def cost_ns(self) -> int:
        return FORWARD_NS + int(BYTE_NS * self._bytes_of(self.point_count))

    @property
    def gpu_cost_ns(self) -> int:
        return self.cost_ns // GPU_SPEED

    @property
    def predicted_bytes(self) -> int:
        """Bytes of the largest padded batch on the device."""
        lengths = self.clouds.lengths
        return max(self._bytes_of(len(g) * int(lengths[g].max())) for g in groups(lengths))

    @property
    def least_bytes(self) -> int:
        """Bytes of its longest cloud, the smallest part of a request."""
        return self._bytes_of(int(self.clouds.lengths.max()))

    def run(self, device: torch.device, pipeline: Pipeline | None) -> list[list[StageOutput]]:
        """Every stage for all clouds, by the device's copy of the encoder."""
        if self.cancelled[0]:
            return [[]]
        return [run_encoder(self.encoders[device], self.clouds, pipeline)]

    def halve(self) -> "tuple[EncodeWork, EncodeWork] | None":
        """Two requests of about as many clouds; None for a single cloud."""
        if len(self.clouds.lengths) == 1:
            return None
        left, right = (replace(self, clouds=half) for half in self.clouds.halves())
        return left, right

    def join(self, first: list[StageOutput], second: list[StageOutput]) -> list[StageOutput]:
        return [concatenated(pair) for pair in zip(first, second, strict=True)]

    def _bytes_of(self, rows: int) -> int:
        """Bytes of the first stage, the widest: all points, and the neighborhoods of samples."""
        config = next(iter(self.encoders.values())).config
        each_point = 3 * 3 + 2 * (1 + config.attributes + config.channels)
        each_sample = config.neighbors * (config.hidden * NEIGHBORHOOD_TENSORS + config.channels)
        return int(4 * rows * (each_point + config.rates[0] * each_sample))


def run_encoder(
    encoder: DensityEncoder, request: ModelInput, pipeline: Pipeline | None = None
) -> list[StageOutput]:
    """Every stage of the encoder for all clouds, in host memory; without a pipeline on a CPU."""
    clouds, found = split(request), dict[int, Sequence[StageOutput]]()
    for group in groups(request.lengths):
        outputs = _run(encoder, _arguments([clouds[cloud] for cloud in group]), pipeline)
        stages = [_split(output) for output in outputs]
        found.update(zip(group.tolist(), zip(*stages, strict=True), strict=True))
    in_order = [found[cloud] for cloud in range(len(clouds))]
    return [concatenated(stages) for stages in zip(*in_order, strict=True)]


def _arguments(clouds: Sequence[Cloud]) -> list[Array]:
    """Points, attributes and, where they differ, lengths of some clouds."""
    lengths = np.array([cloud.length for cloud in clouds])
    names = ("points", "attributes")
    inputs = [padded([cloud.rows[name] for cloud in clouds], lengths) for name in names]
    return inputs if (lengths == lengths[0]).all() else [*inputs, lengths]


def _run(
    encoder: DensityEncoder, inputs: Sequence[Array], pipeline: Pipeline | None
) -> Iterator[Sequence[Array]]:
    """Indices, counts, features, mean distances and lengths of each stage, in host memory."""

    def kernel(
        points: torch.Tensor, attributes: torch.Tensor, lengths: torch.Tensor | None = None
    ) -> list[torch.Tensor]:
        outputs = []
        for stage in encoder(points, attributes.mT, lengths=lengths):
            features, distances = stage.features.mT.float(), stage.mean_distance.float()
            outputs += [stage.indices, stage.counts, features.contiguous(), distances]
            outputs += [] if stage.lengths is None else [stage.lengths]
        return outputs

    if pipeline is None:
        with torch.inference_mode():
            arrays = [output.numpy() for output in kernel(*map(torch.from_numpy, inputs))]
    else:
        arrays = pipeline.submit([[array] for array in inputs], kernel, list).result()
    width = len(arrays) // len(encoder.config.rates)
    return (arrays[i : i + width] for i in range(0, len(arrays), width))


def _split(stage: Sequence[Array]) -> list[StageOutput]:
    """A stage split by cloud, without padding."""
    indices, counts, features, distances = stage[:4]
    lengths = stage[4].tolist() if len(stage) > 4 else [indices.shape[1]] * len(indices)
    return [
        StageOutput(np.array([n]), indices[i, :n], features[i, :n], counts[i, :n], distances[i, :n])
        for i, n in enumerate(lengths)
    ]
