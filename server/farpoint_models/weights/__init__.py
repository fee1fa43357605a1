"""The shipped weights; see docs/models.md for their use and limits."""

from pathlib import Path

from farpoint_models.checkpoint import load_decoder, load_encoder
from farpoint_models.decoder import Decoder
from farpoint_models.encoder import DensityEncoder

DEFAULT = Path(__file__).parent / "density_small.safetensors"
DECODERS = Path(__file__).parent / "density_small_decoders.safetensors"


def default_encoder() -> DensityEncoder:
    """The encoder with the shipped weights, in evaluation mode."""
    return load_encoder(DEFAULT)


def default_decoder(stage: int = 2) -> Decoder:
    """The decoder of a stage of `default_encoder`, from 0."""
    return load_decoder(DECODERS, stage)
