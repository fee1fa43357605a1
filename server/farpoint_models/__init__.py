"""Models built on the ops: the density-aware encoder, its checkpoints and its weights."""

from farpoint_models.checkpoint import CheckpointError, load_encoder, save_encoder
from farpoint_models.config import EncoderConfig
from farpoint_models.encoder import DensityEncoder, EncodedStage
from farpoint_models.weights import default_encoder

__all__ = [
    "CheckpointError",
    "DensityEncoder",
    "EncodedStage",
    "EncoderConfig",
    "default_encoder",
    "load_encoder",
    "save_encoder",
]
