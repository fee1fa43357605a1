"""Settings of the models that are loaded at the start, and of Encode."""

from typing import Annotated, Any

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings, NoDecode

from farpoint_server.config.addresses import split_commas

NONE = "none"
DEFAULT = "default"


class ModelSettings(BaseSettings):
    """Which models are loaded before the server is ready."""

    encoder: Annotated[tuple[str, ...], NoDecode] = Field(
        (DEFAULT,),
        description="Model to load: NAME=PATH of a safetensors file, default for the one that "
        "comes with the server, or none. Repeat the flag for several; the "
        "environment separates them by commas. Encode uses the first where a request names none.",
    )

    model: Annotated[tuple[str, ...], NoDecode] = Field(
        (),
        description="Program to load for Infer: NAME=PATH of a .pt2 archive of torch.export or "
        "AOTInductor, which is code that runs in the server: see docs/serving_models.md. Repeat "
        "the flag for several; the environment separates them by commas.",
    )

    max_encode_points: int = Field(
        1 << 19,
        ge=1,
        description="Most points in one request of Encode or Infer. The default encoder takes "
        "about 6 KB of memory for each point of a large cloud.",
    )

    @field_validator("encoder", "model", mode="before")
    @classmethod
    def _split_encoders(cls, value: Any) -> Any:
        return split_commas(value)

    @field_validator("model")
    @classmethod
    def _check_models(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for model in value:
            name, _, path = model.partition("=")
            if not (name and path):
                raise ValueError(f"expected NAME=PATH, got {model!r}")
        return value

    @field_validator("encoder")
    @classmethod
    def _check_encoders(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for encoder in value:
            name, _, path = encoder.partition("=")
            if encoder not in (DEFAULT, NONE) and not (name and path):
                raise ValueError(f"expected NAME=PATH, default or none, got {encoder!r}")
        return tuple(encoder for encoder in value if encoder != NONE)
