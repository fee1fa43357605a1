"""Encoders and decoders in files: safetensors, with the config of the model in the header.

A pickle, which torch.save writes, is never read: loading one runs whatever code it holds.
"""

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO, TypeVar

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from farpoint_models.config import EncoderConfig
from farpoint_models.decoder import Decoder, Decoders
from farpoint_models.encoder import DensityEncoder


def open_regular(path: Path, error: type[Exception]) -> BinaryIO:
    """Opens a regular file; raises `error` for a pipe, a device, a folder or a path with NUL."""
    if "\0" in str(path):
        raise error(f"{str(path)[:256]!r}: expected a path without NUL")
    # Without O_NONBLOCK, opening a named pipe waits for a writer, possibly for ever.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise error(f"{path}: expected a regular file, got one of another kind")
    return os.fdopen(descriptor, "rb")


FORMAT, DECODER_FORMAT = "farpoint.density_encoder.v1", "farpoint.decoders.v1"
Module = TypeVar("Module", DensityEncoder, Decoders)
# More than the largest encoder that a config allows; files are read whole.
MAX_BYTES = 1 << 30


class CheckpointError(ValueError):
    """A file is not a valid encoder; the message gives the reason."""


def save_encoder(
    encoder: DensityEncoder, path: str | Path, notes: Mapping[str, str] | None = None
) -> None:
    """Writes an encoder to a safetensors file.

    Args:
        encoder: Its config and weights are written.
        path: Overwritten if it exists.
        notes: More to keep in the header, such as how the weights were trained.
    """
    _save(encoder, FORMAT, path, notes or {})


def load_encoder(path: str | Path) -> DensityEncoder:
    """Reads an encoder from a safetensors file, in float32, on the CPU and in evaluation mode.

    Raises:
        FileNotFoundError: There is no such file.
        CheckpointError: It is no regular file, a pickle, not a safetensors file, not one of an
            encoder, or its weights do not fit its config; the message then names the tensor.
    """
    return _load(DensityEncoder, FORMAT, Path(path))


def save_decoders(decoders: Decoders, path: str | Path, notes: Mapping[str, str]) -> None:
    """Writes the decoders of an encoder's stages to a safetensors file, as `save_encoder` does."""
    _save(decoders, DECODER_FORMAT, path, notes)


def load_decoder(path: str | Path, stage: int) -> Decoder:
    """Reads the decoder of a stage, from 0; raises as `load_encoder`."""
    decoder = _load(Decoders, DECODER_FORMAT, Path(path))[stage]
    assert isinstance(decoder, Decoder)
    return decoder


def _save(
    module: DensityEncoder | Decoders, form: str, path: str | Path, notes: Mapping[str, str]
) -> None:
    header = {**notes, "format": form, "config": module.config.to_json()}
    tensors = {name: t.detach().cpu().contiguous() for name, t in module.state_dict().items()}
    # Not save_file, whose files only their owner may read.
    Path(path).write_bytes(save(tensors, header))


def _load(kind: type[Module], form: str, path: Path) -> Module:
    header, tensors = _read(path)
    if header.get("format") != form:
        raise CheckpointError(f"{path}: expected format {form!r}, got {header.get('format')!r}")
    try:
        config = EncoderConfig.from_json(header.get("config", ""))
    except (ValueError, TypeError) as error:
        raise CheckpointError(f"{path}: {error}") from error
    # The shapes are compared before anything is allocated for a config that a file claims.
    with torch.device("meta"):
        expected = kind(config).state_dict()
    check_tensors(expected, tensors, str(path))
    module = kind(config)
    module.load_state_dict(tensors)
    return module.eval()


def check_tensors(
    expected: Mapping[str, Tensor], tensors: Mapping[str, Tensor], source: str
) -> None:
    """Raises CheckpointError for the first missing, unexpected or misshapen tensor."""
    for name, tensor in expected.items():
        if name not in tensors:
            raise CheckpointError(f"{source}: tensor {name} is missing")
        got = tensors[name]
        if got.shape != tensor.shape or not got.is_floating_point():
            raise CheckpointError(
                f"{source}: tensor {name}: expected floats of shape {tuple(tensor.shape)}, "
                f"as the config says, got {got.dtype} of shape {tuple(got.shape)}"
            )
        if not got.isfinite().all():
            raise CheckpointError(f"{source}: tensor {name}: expected finite numbers, got others")
    for name in tensors:
        if name not in expected:
            raise CheckpointError(f"{source}: tensor {name} is not in a model of this config")


def _read(path: Path) -> tuple[dict[str, str], dict[str, Tensor]]:
    with open_regular(path, CheckpointError) as file:
        size = os.fstat(file.fileno()).st_size
    if size > MAX_BYTES:
        raise CheckpointError(f"{path}: expected at most {MAX_BYTES} bytes, got {size}")
    try:
        with safe_open(path, framework="pt") as tensors:
            names = tensors.keys()
            return tensors.metadata() or {}, {name: tensors.get_tensor(name) for name in names}
    except SafetensorError as error:
        raise CheckpointError(
            f"{path} is not a safetensors file, as save_encoder writes (no pickle is read): {error}"
        ) from error
