"""Settings of the models that are loaded at the start, and of Encode and Infer."""

from typing import Annotated, Any, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_settings import BaseSettings, NoDecode

NONE = "none"
DEFAULT = "default"


def _split_text(value: Any) -> Any:
    """Items of a text separated by commas; the path of a repeated flag may have commas."""
    return tuple(item.strip() for item in value.split(",")) if isinstance(value, str) else value


def _check_model(model: str) -> str:
    name, _, path = model.partition("=")
    if not (name and path):
        raise ValueError(f"expected NAME=PATH, got {model!r}")
    return model


def _check_encoders(encoders: tuple[str, ...]) -> tuple[str, ...]:
    for encoder in encoders:
        name, _, path = encoder.partition("=")
        if encoder not in (DEFAULT, NONE) and not (name and path):
            raise ValueError(f"expected NAME=PATH, default or none, got {encoder!r}")
    return tuple(encoder for encoder in encoders if encoder != NONE)


Models: TypeAlias = Annotated[
    tuple[Annotated[str, AfterValidator(_check_model)], ...], NoDecode, BeforeValidator(_split_text)
]
Encoders: TypeAlias = Annotated[
    tuple[str, ...], NoDecode, BeforeValidator(_split_text), AfterValidator(_check_encoders)
]


class ModelSettings(BaseSettings):
    """Models (docs/models.md)"""

    encoder: Encoders = Field(
        (DEFAULT,),
        description="Encoder to load: NAME=PATH of a safetensors file, default for the one that "
        "comes with the server, or none. Repeat the flag, or separate the variable by commas. "
        "Encode uses the first where a request names none.",
    )
    model: Models = Field(
        (),
        description="Model to load for Infer: NAME=PATH of a .pt2 archive of torch.export or "
        "AOTInductor, which is code that runs in the server. Repeat the flag, or separate the "
        "variable by commas.",
    )
    max_encode_points: int = Field(
        1 << 19,
        ge=1,
        description="Most points in one request of Encode or Infer. The default encoder takes "
        "about 6 KB of memory for each point of a large cloud.",
    )
