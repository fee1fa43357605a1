"""The shipped weights; see docs/models.md for their use and limits."""

from pathlib import Path

from farpoint_models.checkpoint import load_encoder
from farpoint_models.encoder import DensityEncoder

DEFAULT = Path(__file__).parent / "density_small.safetensors"


def default_encoder() -> DensityEncoder:
    """The encoder with the shipped weights, in evaluation mode."""
    return load_encoder(DEFAULT)
