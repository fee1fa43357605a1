"""A graph as a plain function of its tensors, which holds its weights and no module."""

from collections.abc import Callable
from functools import partial
from operator import attrgetter
from types import SimpleNamespace
from typing import Any

from torch.fx import GraphModule
from torch.fx.graph import CodeGen


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
