"""Batches of Sample requests: built, split when memory is short, run, and divided into answers."""

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import accumulate
from typing import ClassVar, NamedTuple, TypeVar

import numpy as np
import torch

import farpoint_ops  # noqa: F401  registers the ops
from farpoint_server.engine.transfer.buffers import Array
from farpoint_server.engine.transfer.pipeline import Pipeline
from farpoint_server.engine.types import Clouds, Float32s, Float64s, Int32s, Int64s, Samples, halves

# Time of the CPU kernel, to within a factor of two: the kernel's own estimate, by which it chooses
# the number of threads, for scans, surfaces and noise, alone or a thousand clouds at once.
POINT_NS, SAMPLE_NS = 15, 200
# The same for an H100 in a virtual machine; measured batches correct it (scheduling/lane.py).
# Threads, launches and events; 12 bytes a point, staged and copied; a sample of the longest cloud,
# since its samples follow one another and clouds do not.
GPU_LAUNCH_NS, GPU_POINT_NS, GPU_SAMPLE_NS = 900_000, 5, 400
# Both caching allocators round sizes up to this; a prediction is more than that by a margin.
ROUNDING, MARGIN = 512, 1.25
# Bytes per point: coordinates, distance to the samples, order in which a large cloud is searched.
POINT_TENSORS = (12, 4, 16)
# Bytes per sample: row, distance, and the coordinates of the copy that goes back.
SAMPLE_TENSORS = (4, 4, 12)
CLOUD_BYTES = 3 * 8
# The unread answer to a cancelled request.
_NOTHING = Samples(np.empty(0, np.int32), None)
_Array = TypeVar("_Array", Float32s, Int64s)


# Not frozen: that takes four times as long to make, and every request makes one.
@dataclass(eq=False, slots=True)
class SampleWork:
    """One Sample request; waiting ones run as one batch."""

    clouds: Clouds
    point_count: int = field(init=False)
    """Points of all clouds."""
    cost_ns: int = field(init=False)
    """Nanoseconds that the CPU kernel is predicted to take on one core."""
    cost_key: str = field(init=False)
    """Sampling to a radius has a time of its own for as many points."""
    batch_key: ClassVar[str] = "sample"

    def __post_init__(self) -> None:
        clouds = self.clouds
        self.point_count = len(clouds.points)
        samples = _sample_count(clouds)
        self.cost_key = "sample"
        if clouds.covering_radius is not None:
            self.cost_key = "sample to a radius"
            samples = int(np.minimum(clouds.sample_counts, most_samples(clouds)).sum())
        self.cost_ns = POINT_NS * self.point_count + SAMPLE_NS * samples

    @property
    def gpu_cost_ns(self) -> int:
        """Predicted nanoseconds on a GPU, including copies."""
        longest = int(self.clouds.sample_counts.max())
        return GPU_LAUNCH_NS + GPU_POINT_NS * self.point_count + GPU_SAMPLE_NS * longest

    @staticmethod
    def batch(requests: "Sequence[SampleWork]") -> "SampleBatch":
        return SampleBatch([request.clouds for request in requests])


class SampleBatch:
    """Requests that run in one launch, each of which may be cancelled while it runs.

    Attributes:
        requests: In order.
        point_count: Points of all clouds.
        predicted_bytes: Bytes that the batch takes on the device.
        cancelled: Shape (B,), a flag for each cloud of all requests, shared with all slices. The
            CPU kernel reads it before every sample and stops at clouds that are cancelled. It is
            written on the event loop while the engine's thread reads it; an aligned int32 is stored
            atomically, and a flag that is read late only costs time.
    """

    def __init__(self, requests: Sequence[Clouds], cancelled: Int32s | None = None) -> None:
        self.requests = tuple(requests)
        self._ends = list(accumulate([len(clouds.lengths) for clouds in requests]))
        points = sum([len(clouds.points) for clouds in requests])
        samples = sum([_sample_count(clouds) for clouds in requests])
        if cancelled is None:
            cancelled = np.zeros(self._ends[-1], np.int32)
        self.cancelled = cancelled
        self.point_count = points
        self.predicted_bytes = sample_bytes(points, len(cancelled), samples)

    def __len__(self) -> int:
        return len(self.requests)

    def __getitem__(self, requests: slice) -> "SampleBatch":
        begin, end, _ = requests.indices(len(self))
        first = self._ends[begin - 1] if begin else 0
        return SampleBatch(self.requests[requests], self.cancelled[first : self._ends[end - 1]])

    def cancel(self, index: int) -> None:
        """Cancels the clouds of the request at `index`."""
        end = self._ends[index]
        self.cancelled[end - len(self.requests[index].lengths) : end] = 1

    def halve(self) -> "tuple[SampleBatch, SampleBatch] | None":
        """Two parts of the only request, of about as many clouds; None for a single cloud."""
        (clouds,) = self.requests
        if len(clouds.lengths) == 1:
            return None
        left, right = (
            SampleBatch([_part(clouds, rows, part)], self.cancelled[part])
            for rows, part in halves(clouds.lengths)
        )
        return left, right

    def join(self, first: Samples, second: Samples) -> Samples:
        return first.join(second, self.point_count)

    def run(
        self,
        device: torch.device,  # noqa: ARG002
        pipeline: Pipeline | None,
    ) -> "list[Samples] | Future[list[Samples]]":
        """The samples of each request, from one launch for all clouds.

        On a CPU a request that is cancelled stops at its current sample. On a GPU a batch is
        dropped if all of it is cancelled before the launch; kernels that were launched finish.
        """
        if pipeline is not None:
            return self._submit(pipeline)
        # The first flag is cheap to check and rarely set.
        if self.cancelled[0] and self.cancelled.all():
            return [_NOTHING] * len(self)
        return launch(self.requests, self.cancelled)

    def _submit(self, pipeline: Pipeline) -> "Future[list[Samples]]":
        inputs = _kernel_inputs(self.requests)
        samples = int(inputs.sample_offsets[-1])
        longest, most = (int(np.diff(o).max()) for o in (inputs.offsets, inputs.sample_offsets))

        def kernel(
            points: torch.Tensor,
            offsets: torch.Tensor,
            slots: torch.Tensor,
            starts: torch.Tensor,
            radii: torch.Tensor | None = None,
        ) -> Sequence[torch.Tensor]:
            if self.cancelled.all():
                return ()
            outputs: tuple[torch.Tensor, torch.Tensor] = (
                torch.ops.farpoint.furthest_point_sample_ragged(
                    *(points, offsets, slots, starts),
                    *(samples, longest, most, inputs.with_distances, radii),
                )
            )
            return outputs if inputs.with_distances else outputs[:1]

        points = [clouds.points for clouds in self.requests]
        arrays: list[Sequence[Array]] = [
            points,
            [inputs.offsets],
            [inputs.sample_offsets],
            [inputs.starts],
        ]
        arrays += [] if inputs.radii is None else [[inputs.radii]]
        return pipeline.submit(arrays, kernel, self._answers)

    def _answers(self, outputs: Sequence[Array]) -> list[Samples]:
        if not outputs:
            return [_NOTHING] * len(self)
        rows, *distances = outputs
        return _split(self.requests, rows, distances[0] if distances else None)


# Cached: each request is predicted three times, and streams repeat their sizes.
@lru_cache(1024)
def sample_bytes(points: int, clouds: int, samples: int) -> int:
    """Maximum bytes on the device, including inputs and answers."""
    tensors = [points * size for size in POINT_TENSORS]
    tensors += [samples * size for size in SAMPLE_TENSORS]
    tensors.append(clouds * CLOUD_BYTES)
    return int(MARGIN * sum(-(-size // ROUNDING) * ROUNDING for size in tensors))


def launch(requests: Sequence[Clouds], cancelled: Int32s) -> list[Samples]:
    """The samples of each request on a CPU, computed on the calling thread.

    Clouds whose flag in `cancelled`, shape (B,), is nonzero, now or later, are left unfinished.
    """
    inputs = _kernel_inputs(requests)
    with torch.inference_mode():
        rows, distances = torch.ops.farpoint._furthest_point_sample_cancellable(
            torch.from_numpy(_join([clouds.points for clouds in requests])),
            torch.from_numpy(inputs.offsets),
            torch.from_numpy(inputs.sample_offsets),
            torch.from_numpy(inputs.starts),
            int(inputs.sample_offsets[-1]),
            torch.from_numpy(cancelled),
            inputs.with_distances,
            None if inputs.radii is None else torch.from_numpy(inputs.radii),
        )
    return _split(requests, rows.numpy(), distances.numpy() if inputs.with_distances else None)


def _sample_count(clouds: Clouds) -> int:
    """Number of samples of all clouds together."""
    counts = clouds.sample_counts
    return int(counts[0]) if len(counts) == 1 else int(counts.sum())


def most_samples(clouds: Clouds) -> Float64s:
    """The maximum number of samples of each cloud with a stop radius, shape (B,).

    Samples are farther apart than the radius. So balls of half the radius around them do not
    overlap; they lie in the cloud's box, widened by half the radius on each side, and fill at most
    0.74 of it (Hales, "A Proof of the Kepler Conjecture", 2005).
    """
    firsts = clouds.lengths.cumsum() - clouds.lengths
    points = np.where(np.isfinite(clouds.points), clouds.points, 0)
    sides = np.maximum.reduceat(points, firsts) - np.minimum.reduceat(points, firsts)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        cells = (sides.astype(np.float64) / (clouds.covering_radius or 0.0) + 1).prod(axis=1)
    # 0.7405 of the box, by a ball of pi / 6 of the radius cubed.
    return np.asarray(np.nan_to_num(1.4143 * cells, nan=np.inf))


def _part(clouds: Clouds, rows: slice, part: slice) -> Clouds:
    """A part of a request: some clouds, with these rows."""
    return replace(
        clouds,
        points=clouds.points[rows],
        lengths=clouds.lengths[part],
        sample_counts=clouds.sample_counts[part],
        starts=clouds.starts[part],
    )


class _KernelInputs(NamedTuple):
    """Arguments of the kernels other than points, over all clouds of a batch."""

    offsets: Int64s
    """Shape (B + 1,): first point of each cloud."""
    sample_offsets: Int64s
    """Shape (B + 1,): first sample of each cloud."""
    starts: Int64s
    """Shape (B,): row of each cloud that is chosen first."""
    with_distances: bool
    """Whether any request asked for them."""
    radii: Float32s | None
    """Shape (B,): where each cloud ends, negative for none; None if no request has one."""


def _kernel_inputs(requests: Sequence[Clouds]) -> _KernelInputs:
    return _KernelInputs(
        _offsets([clouds.lengths for clouds in requests]),
        _offsets([clouds.sample_counts for clouds in requests]),
        np.ascontiguousarray(_join([clouds.starts for clouds in requests])),
        any(clouds.with_distances for clouds in requests),
        _radii(requests),
    )


def _radii(requests: Sequence[Clouds]) -> Float32s | None:
    """Stop radius of each cloud; negative if it has none."""
    if all(clouds.covering_radius is None for clouds in requests):
        return None
    given = [-1.0 if c.covering_radius is None else c.covering_radius for c in requests]
    return np.repeat(np.array(given, np.float32), [len(c.lengths) for c in requests])


def _join(arrays: Sequence[_Array]) -> _Array:
    """Concatenates arrays of requests; a single one is not copied."""
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def _offsets(parts: Sequence[Int64s]) -> Int64s:
    lengths = _join(parts)
    offsets = np.zeros(len(lengths) + 1, np.int64)
    lengths.cumsum(out=offsets[1:])
    return offsets


def _split(requests: Sequence[Clouds], rows: Int32s, distances: Float32s | None) -> list[Samples]:
    """Gives each request its own samples, with rows counted from its own first point."""
    if len(requests) == 1:
        return [_ended(requests[0], Samples(rows, distances))]
    samples = []
    point = sample = 0
    for clouds in requests:
        part = slice(sample, sample + int(clouds.sample_counts.sum()))
        own = distances[part] if distances is not None and clouds.with_distances else None
        ended = _ended(clouds, Samples(rows[part], own))
        samples.append(ended._replace(rows=ended.rows - np.int32(point)))
        point += len(clouds.points)
        sample = part.stop
    return samples


def _ended(clouds: Clouds, samples: Samples) -> Samples:
    """Removes the places after the sample at which a covering radius ended a cloud."""
    if clouds.covering_radius is None:
        return samples
    kept = samples.rows >= 0
    first_places = clouds.sample_counts.cumsum() - clouds.sample_counts
    distances = None if samples.distances is None else samples.distances[kept]
    counts = np.add.reduceat(kept, first_places, dtype=np.int64)
    return Samples(samples.rows[kept], distances, counts)
