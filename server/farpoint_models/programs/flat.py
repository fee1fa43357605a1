"""A graph as a plain function of its tensors, which holds its weights and no module."""

import re
from collections.abc import Callable
from functools import partial
from operator import attrgetter
from types import SimpleNamespace
from typing import Any

import torch
from torch.fx import Graph, GraphModule
from torch.fx.graph import CodeGen

aten: Any = torch.ops.aten
# From fx's Python to TorchScript: which chooses overloads and forgets values by itself.
_TO_SCRIPT = (
    (r";  [\w = ]+ = None$", ""),
    (r"(torch\.ops\.\w+\.\w+)\.\w+\(", r"\1("),
    (r"(?<![\w.])device\(type=", "torch.device("),
    (r"(?<![\w.'])(nan|inf)\b", r"float('\1')"),
)


def flat(module: GraphModule) -> Callable[..., Any]:
    """The graph as a function; its weights are freed with it, while a module waits for gc."""
    root = SimpleNamespace()
    for node in module.graph.nodes:
        if node.op in ("get_attr", "call_module"):
            *path, name = str(node.target).split(".")
            place = root
            for part in path:
                place = vars(place).setdefault(part, SimpleNamespace())
            setattr(place, name, attrgetter(str(node.target))(module))
    module.graph.set_codegen(CodeGen())
    code = module.graph.python_code("self")
    names: dict[str, Any] = dict(code.globals)
    exec(compile(code.src, "<program>", "exec"), names)
    return partial(names["forward"], root)


def scripted(module: GraphModule) -> Callable[..., Any]:
    """As `flat`, in TorchScript if that can express it.

    It takes a third of the time between ops, and the interpreter's lock only for a whole call.
    """
    graph, inputs = Graph(), {}
    for node in module.graph.find_nodes(op="get_attr"):
        inputs[node] = graph.placeholder(node.name)
    weights = [attrgetter(str(node.target))(module) for node in inputs]
    for node in module.graph.nodes:
        if node not in inputs and node.op != "call_module":  # guards, which an archive has not
            inputs[node] = graph.node_copy(node, inputs.__getitem__)
            if node.target is aten.sym_size.int:
                inputs[node].target = aten.size.int
    code = graph.python_code("self")
    source = code.src.replace("(self, ", "(", 1).strip()
    for pattern, replacement in _TO_SCRIPT:
        source = re.sub(pattern, replacement, source, flags=re.MULTILINE)
    unit = torch.jit.CompilationUnit()
    try:
        unit.define(f"{source}\n", {"torch": torch, **code.globals}.get)
        weights = [weight.detach() for weight in weights]
    except Exception:  # of what TorchScript cannot do, there are many
        return flat(module)

    def call(*tensors: Any) -> Any:
        try:
            return unit.forward(*weights, *tensors)
        except RuntimeError as error:  # behind lines of generated code
            raise RuntimeError(str(error).rpartition("RuntimeError: ")[2]) from None

    return call
