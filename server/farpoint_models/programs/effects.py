"""What a graph does besides computing outputs from inputs: writes, random numbers, training."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

aten: Any = torch.ops.aten
_BATCH_NORM = aten.batch_norm.default
_WRITTEN_BY_NORM = ("running_mean", "running_var")
# Arguments of random ops: they are not where one of them is false or 0.
_SWITCHES = ("train", "training", "p", "dropout_p")
_BRANCHES = {"cond", "while_loop"}
_READS = {aten.item.default, aten._local_scalar_dense.default}


def keep_own(module: GraphModule) -> None:
    """Lets a graph write to copies of its inputs and buffers, made in each call.

    So no call changes the arrays of a caller, or what another call sees.
    """
    written = {root for node in module.graph.nodes for root in _written(node)}
    for root in written:
        # After all placeholders, which come first in a graph.
        last = [node for node in module.graph.nodes if node.op == "placeholder"][-1]
        place = last if root.op == "placeholder" else root
        with module.graph.inserting_after(place):
            copy = module.graph.call_function(aten.clone.default, (root,))
        copy.meta = dict(root.meta)
        for user in [user for user in root.users if user is not copy]:
            user.replace_input_with(root, copy)
    module.recompile()


def mixing(exported: ExportedProgram) -> str | None:
    """What lets a call, or a cloud of a batch, change the answer to another; None for nothing."""
    graph, signature = exported.graph_module, exported.graph_signature
    roots = {str(root.target) for node in graph.graph.nodes for root in _written(node)}
    kept = {**signature.inputs_to_buffers, **signature.inputs_to_parameters}
    written = {name for root, name in kept.items() if root in roots}
    written |= {*signature.buffers_to_mutate.values()}
    for node in _nodes(graph):
        reason = _statistics_or_chance(node)
        if reason:
            return reason
        if node.graph is not graph.graph and any(_written(node)):
            return f"{node.name} writes in place in a nested graph"
    if written:
        return f"forward changes the buffer {min(written)}, which a call leaves to the next one"
    return None


def waits(exported: ExportedProgram) -> bool:
    """Whether the host reads numbers that a call computes: sizes, branches, Python's numbers."""
    # It loads sympy: half a second and 33 MB, which a server without programs does not need.
    from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

    return any(
        str(node.target) in _BRANCHES or free_unbacked_symbols(node.meta.get("val"))
        for node in _nodes(exported.graph_module)
    )


def _statistics_or_chance(node: Node) -> str | None:
    given = _given(node)
    if node.target is _BATCH_NORM and given["training"]:
        return (
            f"{node.name} is a batch norm in training mode, whose statistics are those of all "
            "clouds of a batch"
        )
    is_random = bool(given) and torch.Tag.nondeterministic_seeded in node.target.tags  # type: ignore[union-attr]
    is_off = not all(given.get(name, True) for name in _SWITCHES)
    if is_random and not is_off:
        hint = ", with training=True" if "dropout" in str(node.target) else ""
        return f"{node.target} is random{hint}"
    return None


def _nodes(module: GraphModule) -> Iterator[Node]:
    """All nodes, with those of nested graphs."""
    for each in module.modules():
        if isinstance(each, GraphModule):
            yield from each.graph.nodes


def _given(node: Node) -> dict[str, Any]:
    """The arguments of an op by name; empty for others."""
    if not isinstance(node.target, torch._ops.OpOverload):
        return {}
    arguments = node.target._schema.arguments
    defaults = {argument.name: argument.default_value for argument in arguments}
    return {**defaults, **dict(zip(defaults, node.args, strict=False)), **node.kwargs}


def _written(node: Node) -> Iterator[Node]:
    """Inputs and buffers whose memory a node writes to."""
    given = _given(node)
    if node.target is _BATCH_NORM:
        names = _WRITTEN_BY_NORM if given["training"] else ()
    elif given:
        arguments = node.target._schema.arguments  # type: ignore[union-attr]
        names = tuple(a.name for a in arguments if a.alias_info and a.alias_info.is_write)
    else:
        names = ()
    for name in names:
        yield from _roots(given.get(name))


def _roots(value: Any) -> Iterator[Node]:
    """Inputs and buffers that a value may share memory with."""
    if isinstance(value, list | tuple):
        for item in value:
            yield from _roots(item)
    elif isinstance(value, Node) and value.op in ("placeholder", "get_attr"):
        yield value
    elif isinstance(value, Node) and _may_share(value):
        for node in value.all_input_nodes:
            yield from _roots(node)


def _may_share(node: Node) -> bool:
    if not isinstance(node.target, torch._ops.OpOverload):
        return True
    schema = node.target._schema
    return torch.Tag.maybe_aliasing_or_mutating in node.target.tags or any(
        result.alias_info is not None for result in schema.returns
    )


def chooses(module: GraphModule) -> set[Node]:
    """Nodes whose numbers decide about integers or booleans that more is computed from.

    The last bit of a feature may choose another neighbor, and that changes all that follows.
    """
    found: set[Node] = set()
    for node in reversed(module.graph.nodes):
        users = [user for user in node.users if user.op != "output"]
        value = node.meta.get("val")
        if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
            is_choice = node.target in _READS  # others are sizes
        else:
            is_choice = isinstance(value, Tensor) and not value.is_floating_point()
            is_choice |= any(user in found for user in users)
        if users and is_choice:
            found.add(node)
    return found
