"""An encoder as a model like any other: its manifest, and its call by tensors in that order."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from farpoint_models import DensityEncoder, EncoderConfig
from farpoint_models.programs import Batching, Manifest, Role, TensorSpec
from farpoint_models.programs.program import Flat
from farpoint_server.compute.arrays import Float32s, Int32s, Int64s
from farpoint_server.kinds.model import Outputs

# Tensors of (samples, neighbors, hidden) that a stage holds at once, as seen on a CPU.
NEIGHBORHOOD_TENSORS = 8


class StageOutput(NamedTuple):
    """One stage of an encoder for B clouds: the S points it keeps, cloud after cloud."""

    lengths: Int64s
    """Shape (B,): points kept of each cloud."""
    indices: Int32s
    """Shape (S,): rows, counted from the cloud's own first."""
    features: Float32s
    """Shape (S, C)."""
    counts: Int32s
    """Shape (S,): points of the cloud that each stands for."""
    mean_distances: Float32s
    """Shape (S,)."""


def manifest_of(config: EncoderConfig) -> Manifest:
    """Clouds padded to the longest; the tensors of stage i end in `_i`."""
    inputs = [TensorSpec("points", Role.POINTS, "float32", ("B", "N", 3))]
    if config.attributes:
        shape = ("B", "N", config.attributes)
        inputs.append(TensorSpec("attributes", Role.PER_POINT, "float32", shape))
    inputs.append(TensorSpec("lengths", Role.LENGTHS, "int64", ("B",)))
    outputs = []
    for i in range(len(config.rates)):
        rows = "B", f"M{i}"
        outputs += [
            TensorSpec(f"lengths_{i}", Role.COUNTS, "int64", ("B",)),
            *(
                TensorSpec(f"{name}_{i}", Role.PER_SAMPLE, dtype, shape, counts=f"lengths_{i}")
                for name, dtype, shape in (
                    ("indices", "int32", rows),
                    ("features", "float32", (*rows, config.channels)),
                    ("counts", "int32", rows),
                    ("mean_distances", "float32", rows),
                )
            ),
        ]
    return Manifest(Batching.PADDED, tuple(inputs), tuple(outputs), shift_float64=True)


def as_flat(encoder: DensityEncoder) -> Flat:
    """The encoder, called by its tensors in the order of the manifest."""

    def run(inputs: Sequence[Tensor]) -> list[Tensor]:
        points, *attributes, lengths = inputs
        rows = attributes[0].mT if attributes else None
        # Without padding no mask is needed. A GPU would have to be waited for to know.
        is_full = points.device.type == "cpu" and bool((lengths == points.shape[1]).all())
        outputs = []
        for stage in encoder(points, rows, lengths=None if is_full else lengths):
            kept = stage.lengths
            if kept is None:
                kept = torch.full_like(lengths, stage.indices.shape[1])
            features, distances = stage.features.mT.float(), stage.mean_distance.float()
            outputs += [kept, stage.indices, features, stage.counts, distances]
        return outputs

    return run


def row_bytes(config: EncoderConfig) -> int:
    """Bytes for each row of the first stage, the widest: points, and neighborhoods of samples."""
    each_point = 3 * 3 + 2 * (1 + config.attributes + config.channels)
    each_sample = config.neighbors * (config.hidden * NEIGHBORHOOD_TENSORS + config.channels)
    return int(4 * (each_point + config.rates[0] * each_sample))


def stages_of(outputs: Outputs) -> list[StageOutput]:
    """The stages of one request from its outputs by name."""

    def stage(i: int) -> StageOutput:
        indices, lengths = outputs[f"indices_{i}"]
        others = (outputs[f"{name}_{i}"].values for name in StageOutput._fields[2:])
        assert lengths is not None
        return StageOutput(lengths, indices, *others)

    return [stage(i) for i in range(sum(name.startswith("lengths_") for name in outputs))]
