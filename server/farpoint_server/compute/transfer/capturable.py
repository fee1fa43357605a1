"""What a CUDA graph may be made of, and the sizes that it is made for."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor

Shapes: TypeAlias = tuple[tuple[int, ...], ...]
# Sizes between a power of two and the next: of clouds one, since more of them take a GPU hardly
# longer, and of rows eight, since samples follow one another.
CLOUD_SIZES, ROW_SIZES = 1, 8


class Axes(NamedTuple):
    """Dimensions of a tensor that may be larger than asked for."""

    clouds: int
    rows: int | None = None
    """Zeros may be behind the rows of a cloud; None where no more rows are allowed."""

    def part(self, tensor: Tensor, clouds: int, rows: int) -> Tensor:
        """The first clouds, and the first rows of each."""
        part = tensor.narrow(self.clouds, 0, clouds)
        return part if self.rows is None else part.narrow(self.rows, 0, rows)

    def rest(self, tensor: Tensor, clouds: int, rows: int) -> Tensor | None:
        """The rows of these clouds behind the first ones; None without any."""
        if self.rows is None or rows == tensor.size(self.rows):
            return None
        part = tensor.narrow(self.clouds, 0, clouds)
        return part.narrow(self.rows, rows, tensor.size(self.rows) - rows)


@dataclass(eq=False)
class Capturable:
    """A computation on a GPU in which the host waits for no result.

    Its graphs live as long as it does, and so does the memory that it reads, as a model's weights.

    Args:
        name: In the log.
        call: Takes the inputs, and returns outputs on their device.
        inputs: Of each one; empty if a call must hold nothing besides what was asked for.
        outputs: Likewise.
        most_clouds: Of a call; None is without limit.
        most_rows: Of a cloud, likewise.
    """

    name: str
    call: Callable[[Sequence[Tensor]], Sequence[Tensor]]
    inputs: Sequence[Axes] = ()
    outputs: Sequence[Axes] = ()
    most_clouds: int | None = None
    most_rows: int | None = None
    is_refused: bool = False
    """Whether a capture showed that the host does wait, or has to."""

    def shapes(self, inputs: Sequence[Tensor]) -> Shapes:
        """Shapes for these inputs, which those of about as many clouds and rows share."""
        found = [[*given.shape] for given in inputs]
        if self.inputs:
            clouds, rows = size_of(inputs, self.inputs)
            clouds = _class_of(clouds, CLOUD_SIZES, self.most_clouds)
            rows = _class_of(rows, ROW_SIZES, self.most_rows)
            for shape, axes in zip(found, self.inputs, strict=True):
                shape[axes.clouds] = clouds
                if axes.rows is not None:
                    shape[axes.rows] = rows
        return tuple(map(tuple, found))


class GraphKernel(ABC):
    """A kernel that may be captured."""

    @abstractmethod
    def capturable(self, device: torch.device) -> Capturable | None:
        """What is captured, the same object each time; None where it cannot be."""

    @abstractmethod
    def __call__(self, *tensors: Tensor, cancelled: Tensor | None = None) -> Sequence[Tensor]:
        """As `Kernel`."""


def size_of(inputs: Sequence[Tensor], axes: Sequence[Axes]) -> tuple[int, int]:
    """Clouds of a call, and rows of each where more are allowed, else 0."""
    pairs = zip(inputs, axes, strict=True)
    rows = [given.size(each.rows) for given, each in pairs if each.rows is not None]
    return inputs[0].size(axes[0].clouds), max(rows, default=0)


def _class_of(size: int, sizes: int, most: int | None) -> int:
    """The next of so many even sizes between two powers of two, but not above `most`."""
    step = max(1, (1 << max(0, (size - 1).bit_length() - 1)) // sizes)
    padded = -(-size // step) * step
    return max(size, min(padded, most or padded))
