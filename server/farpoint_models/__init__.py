"""Models built on the ops: the density-aware encoder, its decoder, checkpoints and weights."""

from farpoint_models.checkpoint import CheckpointError, load_decoder, load_encoder, save_encoder
from farpoint_models.config import EncoderConfig
from farpoint_models.decoder import Decoder
from farpoint_models.encoder import DensityEncoder, EncodedStage
from farpoint_models.weights import default_decoder, default_encoder

__all__ = [
    "CheckpointError",
    "Decoder",
    "DensityEncoder",
    "EncodedStage",
    "EncoderConfig",
    "default_decoder",
    "default_encoder",
    "load_decoder",
    "load_encoder",
    "save_encoder",
]
