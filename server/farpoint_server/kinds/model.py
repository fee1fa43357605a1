"""Work of requests to a model: an encoder or an exported program, on each device."""

import itertools
import math
import time
import weakref
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor

from farpoint_models import EncoderConfig
from farpoint_models.programs import Batching, Manifest, ProgramError, Role, TensorSpec
from farpoint_models.programs.calls import Cloud, arguments, calls, results
from farpoint_models.programs.program import Flat
from farpoint_models.programs.tensors import CLOUDS, ROWS
from farpoint_server.compute.arrays import Array, Int64s, concatenated
from farpoint_server.compute.memory.oom import is_out_of_memory, is_sticky
from farpoint_server.compute.transfer.capturable import Axes, Capturable, GraphKernel
from farpoint_server.compute.work import Joined, Launch, Work
from farpoint_server.errors import InvalidRequestError, shortened
from farpoint_server.kinds.batching import ModelInput, ModelOutput, merged, split

Outputs: TypeAlias = Mapping[str, ModelOutput]
# Times the tensors of a graph: what ops take besides, copies of inputs and outputs, rounding.
MARGIN = 1.5
# Of a GPU's call besides its rows: launches from the host, and copies. And of a program that may
# run for ever: too much for the event loop.
CALL_NS = 1_000_000
# A call of fewer rows takes a GPU as long: it waits for the host's launches. An encoder on an H200
# takes 4,096 rows and 65,536 in the same time.
GPU_ROWS = 1 << 16
# Of memory with the rows of a cloud.
MAX_POWER = 3
# Timed calls, unless they take longer.
TRIALS, TRIALS_NS = 5, 20_000_000
# An encoder takes 9.2 ms for 512 points, 3.5 for each of eight such clouds; 12.5 and 7.5 for 1,024,
# and 31 and 30 for 4,096.
ENCODER_POINTS = 4096
_numbers = itertools.count(time.monotonic_ns())
"""Also unlike those of an engine that this process replaces."""
_copies: dict[int, dict[torch.device, "_Copy"]] = {}
"""The copies of each model that is referenced, by its number, on each device."""


class _Copy(NamedTuple):
    """A model on one device."""

    call: Flat
    capturable: Capturable | None


@dataclass(eq=False)
class LoadedModel:
    """A model and its copies on devices, which are dropped when nothing refers to it any more.

    Args:
        name: As requests name it.
        manifest: Its inputs and outputs, and what shares a call.
        parameters: Number of parameters.
        config: Of an encoder; None for a program.
    """

    name: str
    manifest: Manifest
    parameters: int = 0
    config: EncoderConfig | None = None
    first_calls: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Of each kind of device, the rows of the first call there and the nanoseconds it took."""
    peaks: tuple[tuple[int, int], ...] = ((1, 4096),)
    """Points of clouds of growing sizes, and the bytes that a call with one takes."""
    is_steady: bool = True
    """Whether its time depends on the sizes of its inputs alone."""
    number: int = field(default_factory=lambda: next(_numbers))
    """Names it in launches, which hold no model, and in the engine's process."""

    def __post_init__(self) -> None:
        _copies[self.number] = {}
        weakref.finalize(self, _copies.pop, self.number)

    def call_bytes(self, lengths: Int64s) -> int:
        """Predicted bytes of the largest call with clouds of these lengths."""
        found = []
        for places in calls(lengths, self.manifest):
            rows = lengths[places]
            is_flat = self.manifest.is_ragged
            each = predicted_bytes(self.peaks, int(rows.sum() if is_flat else rows.max()))
            found.append(each if is_flat else each * len(rows))
        return max(found)

    def put(self, device: torch.device, copy: Flat, *, is_capturable: bool = False) -> None:
        """Adds its copy on a device, of which CUDA graphs are made if it `is_capturable`."""
        is_captured = is_capturable and device.type == "cuda"
        capturable = self._capturable(copy) if is_captured else None
        _copies[self.number][device] = _Copy(copy, capturable)

    def _capturable(self, copy: Flat) -> Capturable:
        """Its call for a CUDA graph, which may hold more of what its manifest says to be apart."""
        manifest = self.manifest
        most_clouds, most_rows = (manifest.limit(name)[1] for name in (CLOUDS, ROWS))
        capturable = Capturable(self.name, copy, most_clouds=most_clouds, most_rows=most_rows)
        specs = (*manifest.inputs, *manifest.outputs)
        axes = [each for each in map(self._axes, specs) if each is not None]
        if len(axes) == len(specs):
            count = len(manifest.inputs)
            capturable.inputs, capturable.outputs = axes[:count], axes[count:]
        return capturable

    def _axes(self, spec: TensorSpec) -> Axes | None:
        batching, axis = self.manifest.batching, spec.cloud_axis
        if axis is None or batching not in (Batching.PADDED, Batching.EQUAL):
            return None
        # The rows of samples are as many as the program makes of it.
        has_rows = batching is Batching.PADDED and spec.role is not Role.PER_SAMPLE
        return Axes(axis, spec.row_axis if has_rows else None)


@lru_cache(4096)
def predicted_bytes(peaks: tuple[tuple[int, int], ...], rows: int) -> int:
    """Bytes of a call with one cloud, by a power of its rows between and beyond the peaks."""
    sizes = [size for size, _ in peaks]
    end = min(max(bisect_left(sizes, rows), 1), len(sizes) - 1)
    (small, less), (large, more) = peaks[end - 1], peaks[end]
    power = math.log(more / less) / math.log(large / small) if len(sizes) > 1 else 1
    return int(MARGIN * more * (max(rows, small) / large) ** min(max(power, 0), MAX_POWER))


@dataclass(frozen=True)
class ModelKernel(GraphKernel):
    """A call of a loaded model by its number."""

    number: int

    def capturable(self, device: torch.device) -> Capturable | None:
        return _copies[self.number][device].capturable

    def __call__(self, *tensors: Tensor, cancelled: Tensor | None = None) -> list[Tensor]:  # noqa: ARG002
        """Its outputs; raises InvalidRequestError for what the model refuses."""
        try:
            outputs = _copies[self.number][tensors[0].device].call(tensors)
            return [output.detach().contiguous() for output in outputs]
        except Exception as error:
            if is_out_of_memory(error) or is_sticky(error):
                raise
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise InvalidRequestError(
                "points", "inputs that the program accepts", f"its error: {shortened(reason)}"
            ) from error


@dataclass(frozen=True)
class TrialKernel:
    """A call of a model, and then some that are timed, of which the shortest counts."""

    number: int

    def __call__(self, *tensors: Tensor, cancelled: Tensor | None = None) -> list[Tensor]:  # noqa: ARG002
        """The outputs, then nanoseconds, int64 (1,)."""
        call, device = ModelKernel(self.number), tensors[0].device
        call(*tensors)
        times: list[int] = []
        while len(times) < TRIALS and sum(times) < TRIALS_NS:
            begun = time.monotonic_ns()
            outputs = call(*tensors)
            if device.type == "cuda":
                torch.cuda.current_stream(device).synchronize()
            times.append(time.monotonic_ns() - begun)
        return [*outputs, torch.tensor([min(times)], device=device)]


@dataclass(eq=False)
class ModelWork(Work[Outputs]):
    """One request to a model."""

    uses_openmp: ClassVar[bool] = True
    model: LoadedModel
    request: ModelInput
    point_count: int = field(init=False)
    cloud_count: int = field(init=False)
    cost_key: str = field(init=False)
    """Of the model's name: each has its own time predictions."""

    def __post_init__(self) -> None:
        lengths = self.request.lengths
        self.point_count, self.cloud_count = int(lengths.sum()), len(lengths)
        self.cost_key = f"model {self.model.name}"
        # A program that may run for ever is too much for the event loop.
        self.is_joined = self.model.is_steady
        self.few_points = 0 if self.model.config is None else ENCODER_POINTS

    @cached_property
    def clouds(self) -> list[Cloud]:
        """The clouds of the request."""
        return split(self.request)

    @property
    def batch_key(self) -> tuple[Any, ...] | None:
        """The model, if requests may share a call of it, and the sizes that they must share."""
        if self.model.manifest.batching is Batching.ALONE:
            return None
        return self.model.number, *(array.shape[1:] for array in self.request.values.values())

    def cost_ns(self, device_type: str) -> int:
        rows, first_ns = self.model.first_calls.get(device_type, (1, 0))
        if device_type == "cuda":
            rows = max(rows, GPU_ROWS)
        # Fewer rows take about as long: most of a small call is the ops, not their rows.
        call_ns = first_ns * max(rows, self.point_count) // rows
        return call_ns + (0 if device_type == "cpu" and self.model.is_steady else CALL_NS)

    @property
    def least_bytes(self) -> int:
        """Bytes of the smallest part that a request can be cut to."""
        rows = self._rows()
        return self.model.call_bytes(rows.max(keepdims=True) if self._is_cut else rows)

    @classmethod
    def batch_bytes(cls, works: "Sequence[ModelWork]") -> int:
        """Bytes of its largest call."""
        return works[0].model.call_bytes(np.concatenate([work._rows() for work in works]))

    @classmethod
    def launches(cls, works: "Sequence[ModelWork]") -> Sequence[Launch]:
        model = works[0].model
        return [
            Launch(ModelKernel(model.number), Joined([[array] for array in arrays]))
            for arrays in _arguments(works)
        ]

    @classmethod
    def answers(cls, works: "Sequence[ModelWork]", outputs: Sequence[Sequence[Array]]) -> list[Any]:
        """The outputs of each request."""
        manifest = works[0].model.manifest
        clouds = [cloud for work in works for cloud in work.clouds]
        found: list[Mapping[str, Array]] = [{} for _ in clouds]
        lengths = np.array([cloud.length for cloud in clouds])
        for places, arrays in zip(calls(lengths, manifest), outputs, strict=True):
            try:
                parts = results(manifest, arrays, [clouds[place] for place in places])
            except ProgramError as error:
                name = works[0].model.name
                expected = f"inputs for which the model {name} gives what its manifest says"
                raise InvalidRequestError("inputs", expected, f"from it: {error}") from error
            for place, part in zip(places, parts, strict=True):
                found[place] = part
        answers: list[Outputs] = []
        end = 0
        for work in works:
            begin, end = end, end + work.cloud_count
            answers.append(merged(manifest, found[begin:end]))
        return answers

    def halve(self) -> "tuple[ModelWork, ModelWork] | None":
        if not self._is_cut:
            return None
        left, right = (ModelWork(self.model, half) for half in self.request.halves())
        return left, right

    def join(self, first: Outputs, second: Outputs) -> Outputs:
        return {name: concatenated([part, second[name]]) for name, part in first.items()}

    def _rows(self) -> Int64s:
        """Points of each cloud, or of a second one if that has more."""
        own = [size for spec in self.model.manifest.extra_inputs for size in self._own(spec)]
        return np.maximum(self.request.lengths, max(own, default=0))

    def _own(self, spec: TensorSpec) -> list[int]:
        """Sizes of an input that only it has."""
        shape = self.request.values[spec.name].shape[1:] if spec.own else ()
        pairs = zip(spec.row_shape, shape, strict=False)
        return [size for name, size in pairs if isinstance(name, str)]

    @property
    def _is_cut(self) -> bool:
        """Whether the clouds of the request may run separately."""
        manifest = self.model.manifest
        is_whole = manifest.batching is Batching.ALONE and manifest.has_clouds
        return self.cloud_count > 1 and not is_whole


class TrialWork(ModelWork):
    """The first calls of a model on a device; its answer is the nanoseconds of the shortest."""

    batch_key = None

    @classmethod
    def launches(cls, works: "Sequence[ModelWork]") -> Sequence[Launch]:
        (launch,) = super().launches(works)
        return [Launch(TrialKernel(works[0].model.number), launch.inputs)]

    @classmethod
    def answers(cls, works: "Sequence[ModelWork]", outputs: Sequence[Sequence[Array]]) -> list[Any]:
        ((*arrays, measured),) = outputs
        super().answers(works, [arrays])  # raises for what the manifest does not say
        return [int(measured[0])]


def _arguments(works: Sequence[ModelWork]) -> list[list[Array]]:
    """The inputs of each call, in the order of the graph."""
    manifest = works[0].model.manifest
    clouds = [cloud for work in works for cloud in work.clouds]
    lengths = np.array([cloud.length for cloud in clouds])
    return [
        arguments(manifest, [clouds[place] for place in places])
        for places in calls(lengths, manifest)
    ]
