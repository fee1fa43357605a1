"""Convolutions of size 1 as matrix products of oneDNN, on CPUs with AVX-512.

Torch gives a few clouds on one thread to MKL, which has AVX-512 for Intel's processors alone, and
others to oneDNN's convolution, which copies the channels behind the points and back.
"""

import math
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from farpoint_models.programs.effects import chooses
from farpoint_models.programs.fold import constant

_ARGUMENTS = ("input", "weight", "bias", "stride", "padding", "dilation", "groups")
_CONVOLUTIONS = {torch.ops.aten.conv1d.default, torch.ops.aten.conv2d.default}
# Multiplications of a cloud from which a product is worth its call, and clouds to which it is: many
# small products take longer than one convolution.
_LEAST, _FEW = 1 << 21, 16


def use_products(module: GraphModule) -> None:
    """Replaces convolutions of size 1 in place, after `fold`."""
    # An op that torch does not document: without it all stays as it is.
    is_there = hasattr(torch.ops.mkldnn, "_linear_pointwise")
    if torch.backends.cpu.get_cpu_capability() != "AVX512" or not is_there:
        return
    exact = chooses(module)
    for node in module.graph.nodes:
        if node.target in _CONVOLUTIONS and node not in exact:
            _replace(module, node)
    module.recompile()


@torch.jit.ignore  # type: ignore[untyped-decorator]
def pointwise(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Convolution of (B, C, ...) with a weight (C', C) and a bias (C',): (B, C', ...)."""
    clouds, column = x.flatten(2), bias[:, None]
    if len(clouds) == 1:  # without a copy
        out = _product(weight, clouds[0]).add_(column)
    elif 1 < len(clouds) < _FEW:
        out = x.new_empty(len(clouds), len(weight), clouds.size(2))
        for cloud, place in zip(clouds, out, strict=True):
            torch.add(_product(weight, cloud), column, out=place)
    else:
        out = torch.conv1d(clouds, weight[..., None], bias)
    return out.reshape(len(clouds), len(weight), *x.shape[2:])


def _product(left: Tensor, right: Tensor) -> Tensor:
    product: Tensor = torch.ops.mkldnn._linear_pointwise(left, right.T, None, "none", [], "")
    return product


def _replace(module: GraphModule, node: Node) -> None:
    given: dict[str, Any] = dict(zip(_ARGUMENTS, node.args, strict=False))
    weight, bias = (constant(module, given.get(name)) for name in ("weight", "bias"))
    if weight is None or (bias is None and given.get("bias") is not None) or node.kwargs:
        return
    channels, *sizes = given["input"].meta["val"].shape[1:]
    is_whole = channels == weight.size(1) and set(weight.shape[2:]) == {1}
    is_dense = set(given.get("stride", [1])) == {1} and set(given.get("padding", [0])) == {0}
    # oneDNN compiles and keeps a product for each size (0.4 MB), so sizes must not vary.
    is_fixed = len(sizes) == weight.ndim - 2 and all(isinstance(size, int) for size in sizes)
    if not (is_whole and is_dense and is_fixed and weight.dtype is torch.float32):
        return
    if weight.numel() * math.prod(sizes) < _LEAST:
        return
    # What follows may rely on the layout that the graph says, as `view` does.
    if node.meta["val"].stride(1) != math.prod(sizes):
        return
    constants = {"matrix": weight.flatten(1)}
    constants["bias"] = weight.new_zeros(len(weight)) if bias is None else bias
    with module.graph.inserting_before(node):
        for name, value in constants.items():
            module.register_buffer(f"{node.name}_{name}", value.detach())
        added = [module.graph.get_attr(f"{node.name}_{name}") for name in constants]
    node.target, node.args = pointwise, (given["input"], *added)
