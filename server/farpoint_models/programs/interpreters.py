"""Graphs run node by node: in double precision, and with an eye on memory."""

from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Interpreter, Node
from torch.utils import _pytree as pytree

_FLOATS = (torch.float16, torch.bfloat16, torch.float32)


class Double(Interpreter):
    """Runs a graph in float64, weight by weight, without a second copy of all weights."""

    def placeholder(self, target: Any, args: Any, kwargs: Any) -> Any:
        return _widened(super().placeholder(target, args, kwargs))

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


def _widened(value: Any) -> Any:
    """A float tensor in float64, float64 for the type of one, and else the same."""
    if isinstance(value, Tensor):
        return value.double() if value.dtype in _FLOATS else value
    return torch.float64 if isinstance(value, torch.dtype) and value in _FLOATS else value
