"""What is built on the ops: the encoder, its weights and training, and procedural clouds.

Names are loaded when first used, so that `farpoint_models.scenes` and `farpoint_models.families`
need numpy alone.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from farpoint_models.checkpoint import CheckpointError, load_encoder, save_encoder
    from farpoint_models.config import EncoderConfig
    from farpoint_models.encoder import DensityEncoder, EncodedStage
    from farpoint_models.weights import default_encoder

_MODULES = {
    "CheckpointError": "checkpoint",
    "DensityEncoder": "encoder",
    "EncodedStage": "encoder",
    "EncoderConfig": "config",
    "default_encoder": "weights",
    "load_encoder": "checkpoint",
    "save_encoder": "checkpoint",
}

__all__ = [
    "CheckpointError",
    "DensityEncoder",
    "EncodedStage",
    "EncoderConfig",
    "default_encoder",
    "load_encoder",
    "save_encoder",
]


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
