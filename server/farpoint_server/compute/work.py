"""What a request is on any device: its work, the launches of its kernels, and its outcome."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np
import torch
from torch import Tensor

from farpoint_server.compute.arrays import (
    Array,
    Int32s,
    Layout,
    Piece,
    Pinned,
    joined,
    lay_out,
)
from farpoint_server.compute.transfer.library import SampleBatch

# Bytes of pinned memory that a GPU copies by themselves. To copy these takes a core 2 us, about as
# long as to queue another copy, and 140 for 120,000 points.
APART = 1 << 16
Answer = TypeVar("Answer")
Kernel: TypeAlias = Callable[..., Sequence[Tensor]]
"""A computation and its parameters, without its arrays: a value that can be pickled.

It is called with a tensor for each array of its launch, and returns outputs on their device. On a
CPU `cancelled`, int32 (B,), has a flag for each cloud of the batch, which may be set meanwhile.
"""
W = TypeVar("W", bound="Work[Any]")


class Inputs(Protocol):
    """The arrays of a launch, which are written where the launch needs them."""

    @property
    def layouts(self) -> Sequence[Layout]:
        """Each of them."""

    def fill(self, memory: Array, begins: Sequence[int]) -> Sequence[Piece]:
        """Writes each into bytes of host memory, from its begin on, on any thread.

        Returns what it did not write, for a GPU to copy from where it is.
        """


class Joined:
    """Arrays in parts, which are joined along the first dimension."""

    def __init__(self, arrays: Sequence[Sequence[Array]]) -> None:
        self.arrays = arrays

    @property
    def layouts(self) -> Sequence[Layout]:
        """Of the joined arrays."""
        return [
            Layout(parts[0].dtype, (sum([len(part) for part in parts]), *parts[0].shape[1:]))
            for parts in self.arrays
        ]

    def fill(self, memory: Array, begins: Sequence[int]) -> Sequence[Piece]:
        """Each part in one copy, here or, if it is large and pinned, by the GPU."""
        apart = []
        for layout, parts, begin in zip(self.layouts, self.arrays, begins, strict=True):
            target, end = layout.view(memory, begin), 0
            for part in parts:
                start, end = end, end + len(part)
                if isinstance(part, Pinned) and part.nbytes >= APART and part.flags.c_contiguous:
                    source = part.reshape(-1).view(np.uint8)
                    apart.append(Piece(source, begin + start * target.strides[0]))
                else:
                    target[start:end] = part
        return apart


class Launch(NamedTuple):
    """One call of a kernel."""

    kernel: Kernel
    inputs: Inputs


class StreamKernel(ABC):
    """A kernel that is also one call of C++ from pinned memory to pinned memory, for a GPU."""

    @property
    @abstractmethod
    def predicted_ns(self) -> int:
        """Nanoseconds of that call on an idle GPU, until the outputs are there."""

    @abstractmethod
    def layouts(self) -> Sequence[Layout]:
        """Its outputs."""

    @abstractmethod
    def batch(self, inputs: Sequence[int], outputs: Sequence[int]) -> SampleBatch:
        """What C++ needs to know of it; where memory, stream and event are, the device adds.

        Args:
            inputs: Offset of each array in the memory of the device.
            outputs: Offset of each output behind the first one.
        """


class Work(ABC, Generic[Answer]):
    """One request. Those with the same batch key may run as one batch."""

    batch_key: ClassVar[Any] = None
    """Hashable, or a property that gives it; None runs alone."""
    uses_openmp: ClassVar[bool] = False
    """Whether it calls ops of torch, whose threads are those of OpenMP."""
    begins_on_loop: ClassVar[bool] = False
    """Whether a batch of them is one launch of a `StreamKernel`."""
    is_joined: bool = False
    """Whether small requests that arrive together run on the event loop as one batch; each by
    itself otherwise, without a queue."""
    few_points: int = 0
    """Points that a batch may have whatever time it takes, since each by itself takes as long."""
    cost_key: str
    """Requests with the same key share the correction of their predicted time."""
    point_count: int
    """Points of all clouds."""
    cloud_count: int

    @abstractmethod
    def cost_ns(self, device_type: str) -> int:
        """Predicted nanoseconds on one core ("cpu"), or on an idle GPU with copies ("cuda")."""

    @property
    def predicted_bytes(self) -> int:
        """Maximum bytes on the device, including inputs and answers."""
        return self.batch_bytes([self])

    @property
    def least_bytes(self) -> int:
        """Bytes of the smallest part that it can be cut to."""
        return self.predicted_bytes

    def inline(self, budget_ns: int) -> Answer | None:  # noqa: ARG002
        """The answer, computed on the calling thread on a CPU; None if the budget ran out."""
        outputs = [run_on_cpu(launch) for launch in self.launches([self])]
        answer: Answer = self.answers([self], outputs)[0]
        return answer

    @classmethod
    @abstractmethod
    def batch_bytes(cls: type[W], works: Sequence[W]) -> int:
        """Maximum bytes of a batch on the device, including inputs and answers."""

    @classmethod
    @abstractmethod
    def launches(cls: type[W], works: Sequence[W]) -> Sequence[Launch]:
        """The launches of a batch, in as few as its kind allows."""

    @classmethod
    @abstractmethod
    def answers(cls: type[W], works: Sequence[W], outputs: Sequence[Sequence[Array]]) -> list[Any]:
        """The answer to each request of a batch, from the outputs of each launch in host memory."""

    def halve(self: W) -> tuple[W, W] | None:
        """Two requests of about as many clouds; None where it cannot be cut."""
        return None

    def join(self, first: Answer, second: Answer) -> Answer:  # noqa: ARG002
        """The answer to a request from those to its halves, of which this is the first."""
        raise TypeError(f"{type(self).__name__} cannot be cut, nor its answers joined")


# Not frozen: that takes four times as long to make, and every request makes one.
@dataclass(slots=True)
class Outcome(Generic[Answer]):
    """The answer to one request and its times in milliseconds."""

    result: Answer
    queue_ms: float
    compute_ms: float


def run_on_cpu(launch: Launch, cancelled: Int32s | None = None) -> list[Array]:
    """The outputs of a launch, computed on the calling thread."""
    flags = None if cancelled is None else torch.from_numpy(cancelled)
    with torch.inference_mode():
        inputs = [torch.from_numpy(array) for array in _arrays(launch.inputs)]
        return [output.numpy() for output in launch.kernel(*inputs, cancelled=flags)]


def _arrays(inputs: Inputs) -> Iterator[Array]:
    if isinstance(inputs, Joined):
        yield from map(joined, inputs.arrays)
        return
    arrangement = lay_out(inputs.layouts)
    memory = np.empty(arrangement.size, np.uint8)
    inputs.fill(memory, arrangement.begins)
    for layout, begin in zip(arrangement.layouts, arrangement.begins, strict=True):
        yield layout.view(memory, begin)
