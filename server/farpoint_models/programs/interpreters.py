"""Graphs run node by node: in double precision, and with an eye on memory."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.fx import GraphModule, Interpreter, Node
from torch.utils import _pytree as pytree

from farpoint_models.programs.calls import Array, Cloud
from farpoint_models.programs.manifest import Manifest

_FLOATS = (torch.float16, torch.bfloat16, torch.float32)


class Double(Interpreter):
    """Runs a graph in float64, weight by weight, without a second copy of all weights."""

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        return _widened(super().get_attr(target, args, kwargs))

    def call_module(self, target: Any, args: Any, kwargs: Any) -> Any:
        """Guards, which know the types that the graph was traced with, are left out."""
        return None if target == "_guards_fn" else super().call_module(target, args, kwargs)

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        args, kwargs = pytree.tree_map(_widened, (args, kwargs))
        return pytree.tree_map(_widened, super().call_function(target, args, kwargs))


class Peak(Interpreter):
    """Runs a graph and notes the most bytes that its values take at a time, weights aside."""

    def __init__(self, module: GraphModule) -> None:
        super().__init__(module)
        self.bytes = 0
        weights = (*module.parameters(), *module.buffers())
        self._weights = {weight.untyped_storage().data_ptr() for weight in weights}

    def run_node(self, n: Node) -> Any:
        result = super().run_node(n)
        found = pytree.tree_leaves([*self.env.values(), result])
        storages = [value.untyped_storage() for value in found if isinstance(value, Tensor)]
        sizes = {storage.data_ptr(): storage.nbytes() for storage in storages}
        live = sum(size for place, size in sizes.items() if place not in self._weights)
        self.bytes = max(self.bytes, live)
        return result


def wide_manifest(manifest: Manifest) -> Manifest:
    """With float64 for all floats."""
    inputs, outputs = (
        tuple(
            replace(s, dtype="float64" if s.dtype.startswith("float") else s.dtype) for s in specs
        )
        for specs in (manifest.inputs, manifest.outputs)
    )
    return replace(manifest, inputs=inputs, outputs=outputs)


def wide_cloud(cloud: Cloud) -> Cloud:
    """With float64 for all floats."""

    def wide(arrays: Mapping[str, Array]) -> dict[str, Array]:
        return {k: a.astype(np.float64) if a.dtype.kind == "f" else a for k, a in arrays.items()}

    return Cloud(cloud.length, wide(cloud.rows), wide(cloud.values))


def _widened(value: Any) -> Any:
    """A float tensor in float64, float64 for the type of one, and else the same."""
    if isinstance(value, Tensor):
        return value.double() if value.dtype in _FLOATS else value
    return torch.float64 if isinstance(value, torch.dtype) and value in _FLOATS else value
