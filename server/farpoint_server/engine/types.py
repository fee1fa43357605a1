"""Types that the codec, the scheduler and the engines share: arrays of a request, work, batches."""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Generic, Literal, NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import torch

from farpoint_server.engine.transfer.pipeline import Pipeline
from farpoint_server.memory.oom import SliceableBatch

Float32s = npt.NDArray[np.float32]
Float64s = npt.NDArray[np.float64]
Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
Answer = TypeVar("Answer")
Solo = TypeVar("Solo", bound="SoloWork[Any]")


# Not frozen: that takes four times as long to make, and every request makes one.
@dataclass(eq=False)
class Clouds:
    """The validated clouds of one request, concatenated."""

    points: Float32s
    """Shape (P, 3)."""
    lengths: Int64s
    """Shape (B,): points of each cloud."""
    sample_counts: Int64s
    """Shape (B,): samples of each cloud, with a covering radius at most."""
    starts: Int64s
    """Shape (B,): row of each cloud, from its own first row, that is chosen first."""
    with_distances: bool = False
    covering_radius: float | None = None
    """Stop criterion of each cloud; None for its number of samples alone."""


class VoxelGrid(NamedTuple):
    """Voxel grid: one point of each occupied voxel."""

    voxel_size: float
    select: Literal["first", "nearest_mean", "mean"]
    origin: tuple[float, float, float]


class RandomRows(NamedTuple):
    """Random rows without replacement."""

    seeds: tuple[int, ...]
    """One for each cloud."""


Method: TypeAlias = VoxelGrid | RandomRows
"""A method other than farthest point sampling; it takes coordinates without a shift."""


@dataclass(frozen=True)
class MethodClouds:
    """The validated clouds of a request for another method."""

    points: Float32s | Float64s
    """Shape (P, 3)."""
    lengths: Int64s
    """Shape (B,): points of each cloud."""
    sample_counts: Int64s
    """Shape (B,): samples of each cloud, at most."""
    method: Method


def halves(lengths: Int64s) -> Iterator[tuple[slice, slice]]:
    """Rows and clouds of the first half of a request, and of the second."""
    middle = len(lengths) // 2
    row = int(lengths[:middle].sum())
    yield slice(row), slice(middle)
    yield slice(row, None), slice(middle, None)


class Samples(NamedTuple):
    """The answer to one request: its S samples, cloud after cloud."""

    rows: Int32s
    """Shape (S,): rows of the clouds' points."""
    distances: Float32s | None
    """Shape (S,): covering radius of each prefix; None if not asked for."""
    counts: Int64s | None = None
    """Shape (B,): samples of each cloud where the points decided; None for as asked."""
    points: Float32s | Float64s | None = None
    """Shape (S, 3): points of the answer, if they are not rows of the cloud."""

    def join(self, second: "Samples", points: int) -> "Samples":
        """The answer to a request from those to its halves, of which the first has `points`."""
        return concatenated([self, second._replace(rows=second.rows + np.int32(points))])


@dataclass(frozen=True)
class ModelInput:
    """The validated clouds of one request to a model, concatenated, in the model's types."""

    lengths: Int64s
    """Shape (B,): points of each cloud."""
    rows: Mapping[str, npt.NDArray[Any]]
    """By input, including the coordinates: shape (P, ...)."""
    values: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)
    """By input: shape (B, ...), one for each cloud."""

    def halves(self) -> "Iterator[ModelInput]":
        """Two requests of about as many clouds."""
        for rows, clouds in halves(self.lengths):
            yield ModelInput(
                self.lengths[clouds],
                {name: array[rows] for name, array in self.rows.items()},
                {name: array[clouds] for name, array in self.values.items()},
            )


class StageOutput(NamedTuple):
    """One stage of an encoder for B clouds: the S points it keeps, cloud after cloud."""

    lengths: Int64s
    """Shape (B,): points kept of each cloud."""
    indices: Int32s
    """Shape (S,): rows, counted from the cloud's own first."""
    features: Float32s
    """Shape (S, C)."""
    counts: Int32s
    """Shape (S,): points of the cloud that each stands for."""
    mean_distances: Float32s
    """Shape (S,)."""


class ProgramOutput(NamedTuple):
    """One output of a program for the clouds of one request."""

    values: npt.NDArray[Any]
    """Shape (R, ...): rows of all clouds; or (B, ...)."""
    lengths: Int64s | None
    """Shape (B,): rows of each cloud; None where each cloud has one value."""


Part = TypeVar("Part", bound=tuple[Any, ...])


def concatenated(parts: Sequence[Part]) -> Part:
    """Concatenates each field of named tuples of arrays or None."""
    make: Callable[..., Part] = type(parts[0])
    columns = zip(*parts, strict=True)
    return make(*(None if column[0] is None else np.concatenate(column) for column in columns))


class Batch(SliceableBatch, Protocol[Answer]):
    """Requests with one batch key that an engine runs together."""

    @property
    def point_count(self) -> int:
        """Points of all clouds."""

    def run(
        self, device: torch.device, pipeline: Pipeline | None
    ) -> "list[Answer] | Future[list[Answer]]":
        """The answer to each request, in order, in host memory, or a future of them.

        Called on the engine's thread; `pipeline` is None for a CPU.
        """

    def cancel(self, index: int) -> None:
        """Cancels the request at `index` if it is still possible."""


class InlineWork(Protocol[Answer]):
    """One request that may be small enough for the event loop."""

    @property
    def point_count(self) -> int:
        """Points of all clouds."""

    @property
    def cost_ns(self) -> int:
        """Predicted nanoseconds on a CPU."""

    @staticmethod
    def batch(requests: Sequence[Any]) -> Batch[Answer]:
        """A batch of requests with the same key, or of the only one."""


class Work(InlineWork[Answer], Protocol[Answer]):
    """One request as the scheduler sees it."""

    @property
    def batch_key(self) -> Hashable:
        """Requests with the same key may run as one batch; None runs alone."""

    @property
    def cost_key(self) -> str:
        """Requests with the same key share the correction of their predicted time."""

    @property
    def gpu_cost_ns(self) -> int:
        """Predicted nanoseconds on an idle GPU, including copies."""


@dataclass(frozen=True)
class SoloWork(Generic[Answer]):
    """A request that runs alone."""

    cancelled: list[bool] = field(default_factory=lambda: [False], kw_only=True)
    """Shared with its halves."""
    batch_key: ClassVar[None] = None

    @staticmethod
    def batch(requests: Sequence[Solo]) -> Solo:
        """A copy of the only request with a new cancel flag, to run on another device."""
        (request,) = requests
        return replace(request, cancelled=[False])

    def __len__(self) -> int:
        return 1

    def __getitem__(self: Solo, _: slice) -> Solo:
        return self

    def cancel(self, index: int) -> None:  # noqa: ARG002
        """Cancels it unless it has started."""
        self.cancelled[0] = True


# Not frozen: that takes four times as long to make, and every request makes one.
@dataclass(slots=True)
class Outcome(Generic[Answer]):
    """The answer to one request and its times in milliseconds."""

    result: Answer
    queue_ms: float
    compute_ms: float
