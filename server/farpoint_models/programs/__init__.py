"""Exported programs of point models, as the server runs them."""

from farpoint_models.programs.manifest import Manifest, parse_manifest
from farpoint_models.programs.program import Program, load_program
from farpoint_models.programs.tensors import Batching, ProgramError, Role, TensorSpec

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
