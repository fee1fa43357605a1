"""Work of requests to a model: an encoder or an exported program, on each device."""

import itertools
import time
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from farpoint_models import EncoderConfig
from farpoint_models.programs import Batching, Manifest
from farpoint_models.programs.program import Flat
from farpoint_server.compute.memory.oom import is_out_of_memory, is_sticky
from farpoint_server.compute.work import Array, Launch, Work, concatenated
from farpoint_server.errors import InvalidRequestError, shortened
from farpoint_server.kinds.batching import (
    ModelInput,
    ModelOutput,
    arguments,
    call_rows,
    calls,
    merged,
    results,
    split,
)

Outputs: TypeAlias = Mapping[str, ModelOutput]
# Bytes that a row is predicted to take at least; a GPU measures it at the first run.
ROW_BYTES = 4096
# Too much for the event loop, where a model, which may do anything, must not run.
MODEL_NS = 1_000_000
_numbers = itertools.count()
_copies: dict[int, dict[torch.device, Flat]] = {}
"""The copies of each model that is referenced, by its number, on each device."""


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
    row_ns: float = 0.0
    """Nanoseconds for each row of a call, as the first one on a device took."""
    row_bytes: int = ROW_BYTES
    """Predicted bytes for each row."""
    number: int = field(init=False)
    """Names it in launches, which hold no model."""

    def __post_init__(self) -> None:
        self.number = next(_numbers)
        _copies[self.number] = {}
        weakref.finalize(self, _copies.pop, self.number)

    def put(self, device: torch.device, copy: Flat) -> None:
        """Adds its copy on a device."""
        _copies[self.number][device] = copy


@dataclass(frozen=True)
class ModelKernel:
    """A call of a loaded model by its number."""

    number: int

    def __call__(self, *tensors: Tensor, cancelled: Tensor | None = None) -> list[Tensor]:  # noqa: ARG002
        """Its outputs; raises InvalidRequestError for what the model refuses."""
        try:
            outputs = _copies[self.number][tensors[0].device](tensors)
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
    """Two calls of a model, of which the second one is measured."""

    number: int

    def __call__(self, *tensors: Tensor, cancelled: Tensor | None = None) -> list[Tensor]:  # noqa: ARG002
        """The outputs, then nanoseconds and, on a GPU, bytes beyond those before: int64 (2,)."""
        call, device = ModelKernel(self.number), tensors[0].device
        outputs = call(*tensors)
        used = 0
        if device.type == "cuda":
            torch.cuda.current_stream(device).synchronize()
            torch.cuda.reset_peak_memory_stats(device)
            used = torch.cuda.memory_allocated(device)
        begun = time.monotonic_ns()
        outputs = call(*tensors)
        if device.type == "cuda":
            torch.cuda.current_stream(device).synchronize()
            used = torch.cuda.max_memory_allocated(device) - used
        measured = torch.tensor([time.monotonic_ns() - begun, used], device=device)
        return [*outputs, measured]


@dataclass(eq=False)
class ModelWork(Work[Outputs]):
    """One request to a model."""

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

    @property
    def batch_key(self) -> LoadedModel | None:
        """The model, if its manifest lets requests share a call."""
        return None if self.model.manifest.batching is Batching.ALONE else self.model

    def cost_ns(self, device_type: str) -> int:  # noqa: ARG002  measured on the device
        return MODEL_NS + int(self.model.row_ns * self.point_count)

    @property
    def least_bytes(self) -> int:
        """Bytes of the smallest part that a request can be cut to."""
        lengths, manifest = self.request.lengths, self.model.manifest
        rows = int(lengths.max()) if self._is_cut else call_rows(lengths, manifest)
        return self.model.row_bytes * rows

    @classmethod
    def batch_bytes(cls, works: "Sequence[ModelWork]") -> int:
        """Bytes of its largest call."""
        lengths = np.concatenate([work.request.lengths for work in works])
        return works[0].model.row_bytes * call_rows(lengths, works[0].model.manifest)

    @classmethod
    def launches(cls, works: "Sequence[ModelWork]") -> Sequence[Launch]:
        model = works[0].model
        return [
            Launch(ModelKernel(model.number), [[array] for array in arrays])
            for arrays in _arguments(works)
        ]

    @classmethod
    def answers(cls, works: "Sequence[ModelWork]", outputs: Sequence[Sequence[Array]]) -> list[Any]:
        """The outputs of each request."""
        manifest = works[0].model.manifest
        clouds = [cloud for work in works for cloud in split(work.request)]
        found: list[Mapping[str, Array]] = [{} for _ in clouds]
        lengths = np.array([cloud.length for cloud in clouds])
        for places, arrays in zip(calls(lengths, manifest), outputs, strict=True):
            parts = results(manifest, arrays, [clouds[place] for place in places])
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

    @property
    def _is_cut(self) -> bool:
        """Whether the clouds of the request may run separately."""
        manifest = self.model.manifest
        is_whole = manifest.batching is Batching.ALONE and manifest.has_clouds
        return self.cloud_count > 1 and not is_whole


class TrialWork(ModelWork):
    """The first call of a model on a device; its answer has nanoseconds and bytes of a row."""

    batch_key = None

    @classmethod
    def launches(cls, works: "Sequence[ModelWork]") -> Sequence[Launch]:
        (launch,) = super().launches(works)
        return [Launch(TrialKernel(works[0].model.number), launch.arrays)]

    @classmethod
    def answers(cls, works: "Sequence[ModelWork]", outputs: Sequence[Sequence[Array]]) -> list[Any]:
        ((*arrays, measured),) = outputs
        super().answers(works, [arrays])  # raises for what the manifest does not say
        elapsed_ns, used = measured.tolist()
        return [(elapsed_ns / works[0].point_count, used // works[0].point_count)]


def _arguments(works: Sequence[ModelWork]) -> list[list[Array]]:
    """The inputs of each call, in the order of the graph."""
    manifest = works[0].model.manifest
    clouds = [cloud for work in works for cloud in split(work.request)]
    lengths = np.array([cloud.length for cloud in clouds])
    return [
        arguments(manifest, [clouds[place] for place in places])
        for places in calls(lengths, manifest)
    ]
