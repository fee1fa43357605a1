"""A fake GPU for transfers that runs its streams as late as they may run.

Work of a stream runs in order, some time later; which stream goes on is random. A race on
a real GPU is an error here: memory that is read before it was written, a host buffer that is
touched during a copy, memory that is dropped before a stream has used it.
"""

import ctypes
import random
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import torch

from farpoint_server.compute.arrays import Arrangement, Array, Layout, Piece, address_of
from farpoint_server.compute.transfer.graphs import Graphs
from farpoint_server.compute.work import Kernel, StreamKernel


class Race(RuntimeError):  # noqa: N818
    """An error that a real GPU would not notice."""


@dataclass(eq=False)
class Memory:
    """Bytes of the host or of the device."""

    bytes: Array
    on_device: bool
    filled: bool = False
    """The copy or the kernel that writes it has run."""
    copies: int = 0
    """Copies that read or write it and have not ended."""


@dataclass(frozen=True, eq=False)
class FakeTensor:
    """A part of some memory."""

    memory: Memory
    begin: int
    dtype: "np.dtype[Any]"
    shape: tuple[int, ...]

    @property
    def tensor(self) -> "FakeTensor":
        return self

    @property
    def content(self) -> Array:
        size = int(np.prod(self.shape)) * self.dtype.itemsize
        part = self.memory.bytes[self.begin : self.begin + size]
        return part.view(self.dtype).reshape(self.shape)


FakeStream: TypeAlias = deque["_Later"]
"""Work that runs in order, some time later."""


@dataclass(eq=False)
class FakeEvent:
    """The last place in a stream of a FakeDevice at which it was recorded."""

    device: "FakeDevice"
    recorded: int = 0
    passed: int = 0

    def record(self, stream: FakeStream) -> None:
        self.device.record(self, stream)

    def synchronize(self) -> None:
        self.device.run_until(self)


@dataclass(eq=False)
class _Later:
    """Work of a stream, and its stage: upload, compute, download or event."""

    stage: str
    act: Callable[[], None]


@dataclass
class FakeDevice:
    """A `CudaDevice` whose tensors are FakeTensors; kernels get torch's, of the CPU.

    Args:
        seed: Of the random order.
        hurry: The chance that some work runs with each call of the device.
    """

    seed: int = 0
    hurry: float = 0.5
    most_bytes: int = 1 << 40
    """The largest piece of memory that it gives."""
    stand_in: Callable[[torch.Tensor], torch.Tensor] = field(default=lambda t: t.to("meta"))
    """Makes the tensors from which a kernel computes the shapes of its outputs."""
    refuse: Callable[[str], None] = lambda _: None
    """Called with the name of each request; may raise the errors of a device."""
    log: list[str] = field(default_factory=list)
    """Events of the streams, in order."""

    def __post_init__(self) -> None:
        self._lots = random.Random(self.seed)
        self._changed = threading.Condition()
        self._paused: set[str] = set()
        self._host: weakref.WeakSet[Memory] = weakref.WeakSet()
        self._streams: list[FakeStream] = []
        self._current: FakeStream = deque()
        self.races: list[str] = []
        self.events = 0
        """Events that were made."""

    @property
    def pinned_sizes(self) -> list[int]:
        """Sizes of the buffers that are referenced."""
        return [memory.bytes.nbytes for memory in self._host]

    @property
    def pending(self) -> int:
        """Work that has not run yet."""
        return sum(map(len, self._streams))

    def pause(self, stage: str) -> None:
        """Stops every stream at this stage."""
        self._paused.add(stage)

    def resume(self, stage: str) -> None:
        """Lets them go on."""
        with self._changed:
            self._paused.discard(stage)
            self._changed.notify_all()

    def settle(self) -> None:
        """Runs everything that may run."""
        with self._changed:
            while self._step():
                pass

    def stream(self) -> FakeStream:
        self._streams.append(deque())
        return self._streams[-1]

    def event(self, _stream: FakeStream) -> FakeEvent:
        self.events += 1
        return FakeEvent(self)

    def has_passed(self, event: FakeEvent, most_ns: int) -> bool:
        """Work of the streams runs meanwhile if there is any time for it."""
        with suppress(Exception):  # of a lost device, which those who wait for it will meet
            self.refuse("synchronize")
            if most_ns:
                self.settle()
            return event.passed >= event.recorded
        return False

    @contextmanager
    def on(self, stream: FakeStream) -> Iterator[None]:
        self._current = stream
        with torch.inference_mode():
            yield

    def pinned(self, size: int) -> FakeTensor:
        self._ask("pinned")
        tensor = self._memory(size, on_device=False)
        self._host.add(tensor.memory)
        return tensor

    def memory(self, _stream: FakeStream, size: int) -> FakeTensor:
        self._ask("memory")
        if size > self.most_bytes:
            raise torch.OutOfMemoryError(f"CUDA out of memory: {size} bytes")
        return self._memory(size, on_device=True)

    def scratch_bytes(self, *_: object) -> int:
        return 0

    def start(
        self,
        kernel: StreamKernel,
        uploads: Sequence[Piece],
        blocks: tuple[FakeTensor, FakeTensor],
        inputs: Arrangement,
        outputs: Arrangement,
        stream: FakeStream,
        done: FakeEvent,
    ) -> None:
        """A kernel of C++ is one of torch here."""
        memory, target = blocks
        with self.on(stream):
            self._ask("start")
            for source, begin in uploads:
                self.upload(self.view(memory, begin, source.dtype, source.shape), source)
            found = list(
                self.call(kernel, [self.view(memory, *place) for place in _places(inputs)])
            )
            for place, output in zip(_places(outputs), found, strict=True):
                self.download(self.view(target, *place), output)
            self._give("event", lambda: found.clear())  # until then the block of memory holds them
            self.record(done, stream)

    def upload(self, target: FakeTensor, source: Array) -> None:
        self._ask("upload")
        own = [memory for memory in self._host if np.shares_memory(memory.bytes, source)]
        memory = own[0] if own else self._foreign(source)
        begin = address_of(source) - address_of(memory.bytes)
        self._copy(target, FakeTensor(memory, begin, source.dtype, source.shape), "upload")

    def _foreign(self, source: Array) -> Memory:
        """Pinned memory that is not of this device: there as long as the array."""
        place = (ctypes.c_uint8 * len(source)).from_address(address_of(source))
        memory = Memory(np.frombuffer(place, np.uint8), on_device=False)
        weakref.finalize(source, lambda _: None, memory)
        return memory

    def download(self, target: FakeTensor, source: FakeTensor) -> None:
        self._ask("download")
        self._copy(target, source, "download")

    def view(
        self, memory: FakeTensor, begin: int, dtype: "np.dtype[Any]", shape: Sequence[int]
    ) -> FakeTensor:
        return FakeTensor(memory.memory, memory.begin + begin, dtype, tuple(shape))

    def layout(self, tensor: FakeTensor) -> Layout:
        return Layout(tensor.dtype, tensor.shape)

    def array(self, pinned: FakeTensor) -> Array:
        self._ask("array")
        if pinned.memory.on_device:
            self._race("the host touched memory of the device")
        if pinned.memory.copies:
            self._race("the host touched a buffer that a copy is at")
        return pinned.content

    def call(
        self, kernel: Kernel, inputs: Sequence[FakeTensor], _graphs: Graphs | None = None
    ) -> Sequence[FakeTensor]:
        self._ask("call")
        with torch.inference_mode():
            shapes = kernel(*(self.stand_in(_empty(tensor)) for tensor in inputs))
        outputs = [self._like(shape) for shape in shapes]
        read, written = ([self._weakly(t) for t in ts] for ts in (inputs, outputs))

        def act() -> None:
            tensors = [place() for place in read]
            if not all(tensor.memory.filled for tensor in tensors):
                self._race("a kernel read what was not uploaded yet")
            with torch.inference_mode():
                answers = kernel(*(torch.from_numpy(t.content.copy()) for t in tensors))
            for place, answer in zip(written, answers, strict=True):
                output = place()
                output.content[...] = answer.numpy()
                output.memory.filled = True
            self.log.append("compute")

        if outputs:
            self._give("compute", act)
        return outputs

    def record(self, event: FakeEvent, stream: FakeStream) -> None:
        self._ask("record")
        event.recorded += 1
        recorded = event.recorded

        def act() -> None:
            event.passed = recorded

        with self._changed:
            stream.append(_Later("event", act))

    def run_until(self, event: FakeEvent) -> None:
        """Runs work of the streams until the event has passed."""
        self.refuse("synchronize")
        with self._changed:
            while event.passed < event.recorded:
                if self._step():
                    continue
                if not self._paused:
                    self._race("the host waits for what never happens")
                self._changed.wait()

    def _ask(self, what: str) -> None:
        """Checks a request of the host, and runs some work of the streams."""
        self.refuse(what)
        with self._changed:
            while self._lots.random() < self.hurry and self._step():
                pass

    def _step(self) -> bool:
        ready = [s for s in self._streams if s and s[0].stage not in self._paused]
        if not ready:
            return False
        self._lots.choice(ready).popleft().act()
        return True

    def _give(self, stage: str, act: Callable[[], None]) -> None:
        with self._changed:
            self._current.append(_Later(stage, act))

    def _copy(self, target: FakeTensor, source: FakeTensor, stage: str) -> None:
        places = [self._weakly(target), self._weakly(source)]
        for tensor in (target, source):
            tensor.memory.copies += 1

        def act() -> None:
            to, of = (place() for place in places)
            if of.memory.on_device and not of.memory.filled:
                self._race("a copy read what was not computed yet")
            to.content[...] = of.content
            to.memory.filled = True
            for tensor in (to, of):
                tensor.memory.copies -= 1
            self.log.append(stage)

        self._give(stage, act)

    def _memory(self, size: int, *, on_device: bool) -> FakeTensor:
        # Garbage, as memory that was used before.
        content = np.full(size, 0xA5, np.uint8)
        memory = Memory(content, on_device, filled=size == 0)
        return FakeTensor(memory, 0, np.dtype(np.uint8), (size,))

    def _like(self, tensor: torch.Tensor) -> FakeTensor:
        dtype = torch.empty(0, dtype=tensor.dtype).numpy().dtype
        memory = self._memory(tensor.numel() * dtype.itemsize, on_device=True).memory
        return FakeTensor(memory, 0, dtype, tuple(tensor.shape))

    def _weakly(self, tensor: FakeTensor) -> Callable[[], FakeTensor]:
        """The tensor, without keeping its memory; a race if it was dropped."""
        memory = weakref.ref(tensor.memory)
        begin, dtype, shape = tensor.begin, tensor.dtype, tensor.shape

        def get() -> FakeTensor:
            kept = memory()
            if kept is None:
                self._race("a stream used memory that was dropped")
                raise Race("a stream used memory that was dropped")
            return FakeTensor(kept, begin, dtype, shape)

        return get

    def _race(self, what: str) -> None:
        """Also remembered: the thread that meets it may not be the one to blame."""
        self.races.append(what)
        raise Race(what)


def _places(arranged: Arrangement) -> Iterator[tuple[int, "np.dtype[Any]", tuple[int, ...]]]:
    for layout, begin in zip(arranged.layouts, arranged.begins, strict=True):
        yield begin, *layout


def _empty(tensor: FakeTensor) -> torch.Tensor:
    return torch.from_numpy(np.empty(tensor.shape, tensor.dtype))
