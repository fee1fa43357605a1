"""Batch norms folded into the layers before them."""

from operator import attrgetter
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node
from torch.nn.utils.fusion import fuse_conv_bn_weights, fuse_linear_bn_weights

from farpoint_models.programs.effects import chooses

aten: Any = torch.ops.aten
_FUSE: dict[Any, Any] = {
    aten.conv1d.default: fuse_conv_bn_weights,
    aten.conv2d.default: fuse_conv_bn_weights,
    aten.conv3d.default: fuse_conv_bn_weights,
    aten.linear.default: fuse_linear_bn_weights,
}
# Times the deviation that a mean may be: a norm subtracts it before it scales, which keeps digits
# that a folded bias loses.
STEEP = 1000
# Their outputs are tensors of their own, which no view shares.
_NEW = {*_FUSE, aten.batch_norm.default}


def fold(module: GraphModule) -> GraphModule:
    """Folds batch norms of an exported module in place, and returns it.

    Not where something is chosen by their outputs, whose last bits fold changes.
    """
    exact = chooses(module)
    for node in list(module.graph.nodes):
        if node.target is aten.batch_norm.default and node not in exact:
            _fold_norm(module, node)
        elif node.target is aten.relu.default and _is_sole_user_of_new(node):
            node.target = aten.relu_.default
    module.graph.eliminate_dead_code()
    module.delete_all_unused_submodules()
    module.recompile()
    return module


def _is_sole_user_of_new(node: Node) -> bool:
    before = node.args[0]
    return isinstance(before, Node) and before.target in _NEW and len(before.users) == 1


def _fold_norm(module: GraphModule, norm: Node) -> None:
    given: Any = norm.args
    layer, scale, shift, mean, variance, is_training, _, epsilon, _ = given
    if is_training or not _is_sole_user_of_new(norm) or layer.target not in _FUSE:
        return
    # The channels of a linear layer's output are its last axis, those of a batch norm the second.
    if layer.target is aten.linear.default and layer.meta["val"].ndim != 2:
        return
    inputs, weight, *more = layer.args
    bias, rest = (more[0], more[1:]) if more else (None, [])
    found = [_constant(module, node) for node in (weight, bias, mean, variance, scale, shift)]
    weights, biases, means, variances, scales, shifts = found
    if weights is None or means is None or variances is None or layer.kwargs:
        return
    if (means.abs() > STEEP * (variances + epsilon).sqrt()).any():
        return
    scales = torch.ones_like(means) if scales is None else scales
    shifts = torch.zeros_like(means) if shifts is None else shifts
    fused = _FUSE[layer.target](weights, biases, means, variances, epsilon, scales, shifts)
    names = [f"{layer.name}_folded_{kind}" for kind in ("weight", "bias")]
    with module.graph.inserting_before(layer):
        for name, parameter in zip(names, fused, strict=True):
            module.register_buffer(name, parameter.detach())
        layer.args = (inputs, *map(module.graph.get_attr, names), *rest)
    norm.replace_all_uses_with(layer)
    module.graph.erase_node(norm)


def _constant(module: GraphModule, node: Any) -> Tensor | None:
    """A weight or a buffer; None for other nodes."""
    if not isinstance(node, Node) or node.op != "get_attr":
        return None
    value: Tensor = attrgetter(str(node.target))(module)
    return value
