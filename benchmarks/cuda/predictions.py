"""What docs/performance_cuda.md predicts for a sample, to stand beside what a GPU measures.

Its tables have cycles of the sampling loop, static and simulated; they are read, not repeated here.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[2] / "docs" / "performance_cuda.md"
# Of the H100 that the simulation had.
MHZ = 1755
# The loop of a cloud that has a processor to itself: up to so many points, method and name. A scan
# keeps one or two warps busy at a time.
STATIC = (
    (1024, "block", "block, 128 x 8"),
    (2048, "block", "block, 128 x 16"),
    (4096, "block", "block, 256 x 16"),
    (1024, "tree", "tree, registers, 2 warps, 2 busy"),
    (4096, "tree", "tree, registers, 8 warps, 4 busy"),
    (16384, "tree", "tree, registers, 16 warps, 4 busy"),
    (32_768, "tree", "tree, two boxes, 16 warps, 4 busy"),
    (160_000, "tree", "tree, shared nodes, 16 warps, 4 busy"),
    (524_288, "tree", "tree, global nodes, 16 warps, 4 busy"),
    (1 << 24, "tree", "tree, three levels, 16 warps, 4 busy"),
)


def predicted(method: str, points: int) -> dict[str, float]:
    """Microseconds of a sample of one cloud by a kernel, by kind of evidence; empty for none."""
    cycles = {"static": _static(method, points), "simulated": _simulated().get((method, points))}
    return {kind: count / MHZ for kind, count in cycles.items() if count is not None}


def beside(method: str, points: int, step: dict[str, Any]) -> dict[str, Any]:
    """A measured step with its predictions, and the measured time as a multiple of each."""
    kinds = predicted(method, points)
    quotients = {kind: step["us_per_step"] / us for kind, us in kinds.items()}
    return step | {"predicted_us": kinds, "over_predicted": quotients}


def _rows() -> Iterator[list[str]]:
    """The cells of every table of the page."""
    for line in PAGE.read_text().splitlines():
        if line.startswith("|"):
            yield [cell.strip() for cell in line.strip("|").split("|")]


def _static(method: str, points: int) -> int | None:
    names = [name for most, by, name in STATIC if by == method and points <= most]
    cycles = {row[0]: row[1] for row in _rows() if len(row) == 5}
    return int(cycles[names[0]]) if names else None


def _simulated() -> dict[tuple[str, int], int]:
    """By method and points: rows such as `16 384 | tree, 16 warps | 1282 | ...`."""
    found = {}
    for row in _rows():
        points = row[0].replace(" ", "")
        method = re.match(r"(block|tree), ", row[1]) if len(row) == 7 else None
        if method and points.isdigit() and row[2].isdigit():
            found[method[1], int(points)] = int(row[2])
    return found
