"""The weights that come with the package; docs/models.md says what they are good for."""

from pathlib import Path

from farpoint_models.checkpoint import load_encoder
from farpoint_models.encoder import DensityEncoder

DEFAULT = Path(__file__).parent / "density_small.safetensors"


def default_encoder() -> DensityEncoder:
    """The encoder that `python -m farpoint_training` trained, in evaluation mode."""
    return load_encoder(DEFAULT)
