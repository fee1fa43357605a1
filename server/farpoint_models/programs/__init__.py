"""Exported programs of point models, as the server runs them."""

from farpoint_models.programs.manifest import (
    Batching,
    Manifest,
    ProgramError,
    Role,
    TensorSpec,
    parse_manifest,
)
from farpoint_models.programs.program import Program, load_program

__all__ = [
    "Batching",
    "Manifest",
    "Program",
    "ProgramError",
    "Role",
    "TensorSpec",
    "load_program",
    "parse_manifest",
]
