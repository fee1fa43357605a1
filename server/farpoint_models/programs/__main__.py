"""`python -m farpoint_models.programs`: writes a served program from an nn.Module.

The command `farpoint export` is this one.
"""

import argparse
import importlib
import importlib.util
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from farpoint_models.programs.export import export_program
from farpoint_models.programs.manifest import Manifest
from farpoint_models.programs.tensors import Batching, ProgramError, Role, TensorSpec

_EXAMPLE = """\
example, a segmenter whose forward is (xyz, color) -> scores:
  farpoint export model.py:segmenter segmenter.pt2 --batching equal \\
    --input points:xyz=B,N,3 --input per_point:color=B,3,N --output per_point:scores=B,13,N \\
    --limit N=512,65536
roles of inputs: points, per_point, per_cloud, lengths, offsets
roles of outputs: per_point, per_sample, per_cloud, counts
dimensions: B clouds, N points of each, P points of all (ragged), B+1; another name for samples, or
for the points of a second cloud, per_cloud:target=B,M,3
the output per_sample:boxes=B,K,7@kept has as many boxes of a cloud as the output counts:kept=B says
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Exports a program and prints a summary; the exit status is 2 on failure."""
    options = _parser().parse_args(arguments)
    try:
        manifest = Manifest(
            batching=options.batching,
            inputs=_inputs(options.input, options.nonfinite),
            outputs=tuple(map(_tensor, options.output)),
            limits=dict(map(_limit, options.limit)),
            shift_float64=options.shift_float64,
            examples=_examples(options.examples),
        )
        module = _module(options.module)
        program = export_program(module, manifest, options.path)
    except (ProgramError, OSError) as error:
        print(f"farpoint export: {error}", file=sys.stderr)
        return 2
    limits = ", ".join(f"{k} {a} to {b or 'any'}" for k, (a, b) in program.manifest.limits.items())
    print(f"{options.path}: {program.parameters} parameters; {limits}")
    print(f"its answers equal those of the module within {program.tolerance}")
    print(f"serve it: farpoint-server --model {options.path.stem}={options.path}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="farpoint export",
        description="Writes a .pt2 archive that farpoint-server --model serves.",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_tensors(parser)
    parser.add_argument(
        "--batching",
        type=Batching,
        choices=[*Batching],
        default=Batching.EQUAL,
        metavar="|".join(j.value for j in Batching),
    )
    words = "sizes of a dimension; the model is tried on the smallest, the largest and others"
    parser.add_argument(
        "--limit", action="append", default=[], metavar="NAME=MIN[,MAX]", help=words
    )
    parser.add_argument(
        "--shift-float64",
        action="store_true",
        help="the model uses only differences of coordinates, so float64 ones may be "
        "shifted to the first point of their cloud",
    )
    return parser


def _add_tensors(parser: argparse.ArgumentParser) -> None:
    """Adds the module, the archive and what describes the tensors."""
    parser.add_argument(
        "module",
        help="PACKAGE.MODULE:NAME or FILE.py:NAME, an nn.Module or a "
        "function that makes one; its code is run",
    )
    parser.add_argument("path", type=Path, help="archive to write, NAME.pt2")
    tensor: Any = {"action": "append", "required": True}
    metavar = "ROLE:NAME=SHAPE[:DTYPE]"
    words = "input in the order of forward; float32 by default"
    parser.add_argument("--input", help=words, metavar=metavar, **tensor)
    words = "output in the order of forward's results"
    parser.add_argument("--output", help=words, metavar=f"{metavar}[@COUNTS]", **tensor)
    words = "input that may hold NaN and infinity"
    parser.add_argument("--nonfinite", action="append", default=[], metavar="NAME", help=words)
    parser.add_argument(
        "--examples",
        type=Path,
        metavar="FILE.npz",
        help="values of a cloud by input, rows first, where random numbers are none that the "
        "model takes; kept in the archive, for the server's trial",
    )


def _inputs(texts: Sequence[str], nonfinite: Sequence[str]) -> tuple[TensorSpec, ...]:
    specs = [*map(_tensor, texts)]
    for name in nonfinite:
        if name not in [spec.name for spec in specs]:
            raise ProgramError(f"--nonfinite: expected the name of an input, got {name}")
    return tuple(replace(spec, nonfinite=spec.name in nonfinite) for spec in specs)


def _examples(path: Path | None) -> tuple[Mapping[str, Any], ...]:
    if path is None:
        return ()
    try:
        with np.load(path, allow_pickle=False) as file:
            return (dict(file),)
    except (ValueError, AttributeError) as error:
        raise ProgramError(f"--examples: expected a .npz file of arrays, got {error}") from None


def _tensor(text: str) -> TensorSpec:
    """ROLE:NAME=SHAPE[:DTYPE][@COUNTS]."""
    head, _, rest = text.partition("=")
    role, _, name = head.partition(":")
    rest, _, counts = rest.partition("@")
    shape, _, dtype = rest.partition(":")
    if role not in {r.value for r in Role} or not name or not shape:
        raise ProgramError(
            f"expected ROLE:NAME=SHAPE[:DTYPE][@COUNTS], such as points:xyz=B,N,3, got {text}"
        )
    sizes = tuple(int(size) if size.isdigit() else size for size in shape.split(","))
    return TensorSpec(name, Role(role), dtype or "float32", sizes, counts=counts)


def _limit(text: str) -> tuple[str, tuple[int, int | None]]:
    name, _, numbers = text.partition("=")
    least, _, most = numbers.partition(",")
    if not name or not least.isdigit() or (most and not most.isdigit()):
        raise ProgramError(f"--limit: expected NAME=MIN or NAME=MIN,MAX, got {text}")
    return name, (int(least), int(most) if most else None)


def _module(text: str) -> nn.Module:
    source, _, name = text.rpartition(":")
    if not source:
        raise ProgramError(f"expected MODULE:NAME or FILE.py:NAME, got {text}")
    try:
        found: Any = getattr(_imported(source), name)
    except (ImportError, AttributeError) as error:
        raise ProgramError(f"{text}: {error}") from error
    module = found if isinstance(found, nn.Module) else found()
    if not isinstance(module, nn.Module):
        raise ProgramError(f"{text}: expected an nn.Module, got {type(module).__name__}")
    return module


def _imported(source: str) -> Any:
    if not source.endswith(".py"):
        return importlib.import_module(source)
    if not Path(source).is_file():
        raise ProgramError(f"{source}: no such file")
    spec = importlib.util.spec_from_file_location(Path(source).stem, source)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    sys.exit(main())
