"""CUDA graphs: the launches of a model's call, captured once and replayed by one driver call.

Each slot has graphs of its own, since what is replayed writes to fixed memory: the graphs of a slot
follow one another on its stream, so they share a pool of memory, and those of other slots overlap
with them without waiting for events.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

import structlog
import torch
from torch import Tensor

from farpoint_server.compute.memory.oom import Aside, is_out_of_memory
from farpoint_server.compute.transfer.capturable import Capturable, GraphKernel, Shapes, size_of

# Calls of a model with the same shapes in a slot, after which they are captured. The first ones
# load kernels and libraries, which no capture may.
USES = 3
# Graphs of a slot. A full slot drops the least recently used one, if it was not used for so many
# calls: a capture takes as long as a few of them.
GRAPHS, STALE = 32, 1000
# Shapes of a model that are counted; those that never come again are forgotten with the others.
COUNTED = 1024
Pool: TypeAlias = Any
"""torch's handle of memory for graphs."""
log = structlog.get_logger("farpoint.compute")


@dataclass(eq=False)
class _Known:
    """What a slot knows of one computation."""

    uses: Counter[Shapes] = field(default_factory=Counter)
    graphs: dict[Shapes, "_Graph"] = field(default_factory=dict)


class Graphs:
    """The graphs of one slot, which are captured and replayed on its stream.

    Args:
        aside: Where the memory of all graphs of the device counts.
    """

    def __init__(self, aside: Aside) -> None:
        self._aside = aside
        self._known: WeakKeyDictionary[Capturable, _Known] = WeakKeyDictionary()
        self._pools: list[Pool] = []
        """Of memory, since the last trim; the last of them is in use."""
        self._calls = 0
        self._is_short = False
        """Whether memory ran out in a capture since the last trim."""

    def launch(self, kernel: GraphKernel, inputs: Sequence[Tensor]) -> Sequence[Tensor]:
        """The outputs of a kernel, the caller's own, queued on the current stream: the slot's."""
        capturable = kernel.capturable(inputs[0].device)
        graph = None if capturable is None else self._graph(capturable, inputs)
        return kernel(*inputs) if graph is None else graph.replay(inputs)

    def clear(self) -> None:
        """Drops all graphs, of which none may be in flight; a trim then frees their memory."""
        for known in self._known.values():
            known.graphs.clear()
            known.uses.clear()
        self._pools, self._is_short = [], False
        self._aside.put(self, 0)

    def _graph(self, capturable: Capturable, inputs: Sequence[Tensor]) -> "_Graph | None":
        """The graph of these shapes, captured if they are used often enough; None without one."""
        known = self._known.get(capturable)
        if known is None:
            known = self._known[capturable] = _Known()
        self._calls += 1
        shapes = capturable.shapes(inputs)
        graph = known.graphs.get(shapes)
        if graph is None and not capturable.is_refused and self._is_due(known, shapes):
            graph = self._capture(capturable, known, shapes, inputs)
        if graph is not None:
            graph.used = self._calls
        return graph

    def _is_due(self, known: _Known, shapes: Shapes) -> bool:
        if len(known.uses) >= COUNTED:
            known.uses.clear()
        known.uses[shapes] += 1
        if known.uses[shapes] <= USES or self._is_short or self._aside.is_full:
            return False
        every = [(graph, each) for each in self._known.values() for graph in each.graphs.items()]
        if len(every) < GRAPHS:
            return True
        (oldest, graph), owner = min(every, key=lambda one: one[0][1].used)
        if self._calls - graph.used <= STALE:
            return False
        del owner.graphs[oldest]
        return True

    def _capture(
        self, capturable: Capturable, known: _Known, shapes: Shapes, inputs: Sequence[Tensor]
    ) -> "_Graph | None":
        """A new graph; None if the computation does not allow it, or memory is short."""
        if not any(each.graphs for each in self._known.values()):
            # With its last graph torch gave up the pool; what it held, only a trim frees.
            self._pools.append(torch.cuda.graph_pool_handle())
        try:
            graph = known.graphs[shapes] = _Graph(capturable, shapes, inputs, self._pools[-1])
        except Exception as error:
            self._is_short = is_out_of_memory(error)
            # Other shapes may have taken another kernel, which had to be loaded first.
            is_padded = shapes != tuple(tuple(given.shape) for given in inputs)
            capturable.is_refused = not (self._is_short or is_padded)
            known.uses[shapes] = -COUNTED
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            log.warning("no CUDA graph", model=capturable.name, shapes=shapes, reason=reason)
            return None
        finally:
            self._aside.put(self, sum(map(_pool_bytes, self._pools)))
        log.info("CUDA graph", model=capturable.name, shapes=shapes, pool=self._aside.size)
        return graph


class _Graph:
    """One captured call, its inputs and its outputs."""

    def __init__(
        self, capturable: Capturable, shapes: Shapes, inputs: Sequence[Tensor], pool: Pool
    ) -> None:
        self.used, self._graph, call = 0, torch.cuda.CUDAGraph(), capturable.call
        # Not the capturable, with which its graphs are to go.
        self._input_axes, self._output_axes = capturable.inputs, capturable.outputs

        def run() -> None:
            pairs = zip(inputs, shapes, strict=True)
            self._inputs = [given.new_empty(shape) for given, shape in pairs]
            self._outputs = [output.contiguous() for output in call(self._inputs)]

        _capture(self._graph, run, pool, inputs[0].device)
        if self._input_axes:
            self._fill(inputs)

    def replay(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        """The outputs for these inputs: copies, since the next replay overwrites its own."""
        targets, outputs = self._inputs, self._outputs
        if self._input_axes:
            size = size_of(inputs, self._input_axes)
            for axes, target in zip(self._input_axes, targets, strict=True):
                rest = axes.rest(target, *size)
                if rest is not None:
                    rest.zero_()
            targets, outputs = (
                [axes.part(each, *size) for axes, each in zip(of, tensors, strict=True)]
                for of, tensors in ((self._input_axes, targets), (self._output_axes, outputs))
            )
        for target, given in zip(targets, inputs, strict=True):
            target.copy_(given)
        self._graph.replay()
        return [output.clone(memory_format=torch.contiguous_format) for output in outputs]

    def _fill(self, inputs: Sequence[Tensor]) -> None:
        """Fills all clouds with the first one: the program accepts it. Later they are others'."""
        _, rows = size_of(inputs, self._input_axes)
        for axes, target, given in zip(self._input_axes, self._inputs, inputs, strict=True):
            every = axes.part(target.zero_(), target.size(axes.clouds), rows)
            every.copy_(axes.part(given, 1, rows).expand_as(every))


def _pool_bytes(pool: Pool) -> int:
    segments: Any = torch.cuda.memory_snapshot(pool, include_traces=False)  # type: ignore[no-untyped-call]
    return sum(segment["total_size"] for segment in segments)


def _capture(
    graph: torch.cuda.CUDAGraph,
    run: Callable[[], object],
    pool: Pool,
    device: torch.device,
) -> None:
    """Captures what `run` queues, without the flush of the cache by torch.cuda.graph.

    Other threads may call the driver meanwhile. After an error stream and allocator are as before.
    """
    graph.capture_begin(pool=pool, capture_error_mode="thread_local")
    try:
        run()
    except BaseException:
        with suppress(RuntimeError):
            _end(graph, pool, device)
        raise
    _end(graph, pool, device)


def _end(graph: torch.cuda.CUDAGraph, pool: Pool, device: torch.device) -> None:
    """Ends a capture; where that fails, torch before 2.14 goes on to allocate in the pool."""
    try:
        graph.capture_end()
    except RuntimeError:
        with suppress(RuntimeError):
            torch._C._cuda_endAllocateToPool(device.index or 0, pool)
            torch._C._cuda_releasePool(device.index or 0, pool)
        raise
