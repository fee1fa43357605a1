"""What must hold of a program: on every trial, and for each cloud whatever else is in its call."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from farpoint_models.programs.calls import Array, Cloud, Outputs, run_clouds
from farpoint_models.programs.manifest import Manifest
from farpoint_models.programs.tensors import ProgramError, first_line

Flat: TypeAlias = Callable[[Sequence[Tensor]], list[Tensor]]
"""A program that takes and returns tensors in the order of its manifest."""
# How far answers may be apart by the least exact type of a program.
TOLERANCES = {torch.bfloat16: 4e-2, torch.float16: 5e-3, torch.float32: 1e-5}


def tolerance_of(dtypes: Iterable[torch.dtype]) -> float:
    """How far answers of a program of these types may be apart, relative as in `apart`."""
    found = set(dtypes)
    return next((t for dtype, t in TOLERANCES.items() if dtype in found), 1e-5)


def apart(found: Array, wanted: Array) -> float:
    """The largest difference, relative to the largest number or 1; infinite for other shapes.

    Equal infinities are equal, and so are two NaN; integers are equal or not.
    """
    if found.shape != wanted.shape:
        return np.inf
    if found.dtype.kind != "f":
        return 0.0 if np.array_equal(found, wanted) else np.inf
    got, want = found.astype(np.float64), wanted.astype(np.float64)
    is_same = (got == want) | (np.isnan(got) & np.isnan(want))
    if not np.isfinite([got[~is_same], want[~is_same]]).all():
        return np.inf
    scale = np.abs(want[np.isfinite(want)]).max(initial=1.0)
    return float(np.abs(got[~is_same] - want[~is_same]).max(initial=0.0) / scale)


def run_trial(
    run: Flat, manifest: Manifest, clouds: Sequence[Cloud], device: torch.device
) -> list[Outputs]:
    """The outputs of each cloud of a trial.

    Raises:
        ProgramError: the program fails, or its outputs are not those of the manifest.
    """

    def call(inputs: Sequence[Array]) -> list[Array]:
        given = [torch.from_numpy(array).to(device) for array in inputs]
        with torch.no_grad():
            return [output.cpu().numpy() for output in run(given)]

    try:
        return run_clouds(call, manifest, clouds)
    except Exception as error:
        sizes = ", ".join(str(cloud.length) for cloud in clouds)
        reason = f"a trial with clouds of {sizes} points failed: {first_line(error)}"
        raise ProgramError(reason) from error


def check_alike(
    run: Flat,
    manifest: Manifest,
    clouds: Sequence[Cloud],
    device: torch.device,
    tolerance: float,
) -> None:
    """Raises ProgramError if the answer to a cloud depends on the others of its call."""
    together = run_trial(run, manifest, clouds, device)
    for cloud, joined in zip(clouds, together, strict=True):
        (alone,) = run_trial(run, manifest, [cloud], device)
        for name, wanted in alone.items():
            found, distance = joined[name], apart(joined[name], wanted)
            if distance > tolerance:
                what = f"differs by {distance:.2g}"
                if found.shape != wanted.shape:
                    what = f"has the shape {list(found.shape)}, and {list(wanted.shape)} alone"
                raise ProgramError(
                    f"output {name}: with other clouds in its call, the answer to a cloud of "
                    f"{cloud.length} points {what}: forward must treat each cloud for itself, or "
                    "be exported with batching alone, for one request at a time"
                )
