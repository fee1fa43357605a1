"""Requests to the architectures of the zoo, and what their modules answer to each cloud alone."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from farpoint_models.programs import Manifest, Role
from farpoint_models.programs.calls import Cloud, run_clouds

Arrays = Mapping[str, np.ndarray[Any, Any]]


def request(manifest: Manifest, points: int, seed: int, own: int = 20) -> Arrays:
    """A cloud as `Client.infer` takes it, rows first; those of odd seeds are ten times as large."""
    random = np.random.default_rng(seed)
    inputs = {}
    for spec in (manifest.points, *manifest.extra_inputs):
        rows = () if spec.row_axis is None else (points,)
        shape = (*rows, *(own if isinstance(size, str) else size for size in spec.row_shape))
        if spec.dtype == "int64":
            inputs[spec.name] = random.integers(0, 4, shape)
        else:
            inputs[spec.name] = (10 ** (seed % 2) * random.random(shape)).astype(spec.dtype)
    return inputs


def eager(module: nn.Module, manifest: Manifest, inputs: Arrays) -> Arrays:
    """The outputs of the module for one cloud alone, rows first."""

    def call(arrays: Sequence[np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
        with torch.no_grad():
            found = pytree.tree_leaves(module(*map(torch.from_numpy, arrays)))
        return [tensor.numpy() for tensor in found if isinstance(tensor, Tensor)]

    rows = {
        s.name: inputs[s.name]
        for s in manifest.inputs
        if s.name in inputs and s.row_axis is not None
    }
    values = {name: array for name, array in inputs.items() if name not in rows}
    cloud = Cloud(len(inputs[manifest.points.name]), rows, values)
    (outputs,) = run_clouds(call, manifest, [cloud])
    return outputs


def check(answer: Any, expected: Arrays) -> None:
    """The answers are those of the module, within 1e-4 of the largest."""
    for name, wanted in expected.items():
        found = answer[name]
        assert found.shape == wanted.shape, name
        finite = np.abs(wanted[np.isfinite(wanted)])
        scale = max(1.0, float(finite.max(initial=0.0)))
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-4 * scale, err_msg=name)


def batched(manifest: Manifest) -> bool:
    """Whether clouds of one size make one tensor with a first dimension of clouds."""
    return manifest.points.role is Role.POINTS
