"""A fake GPU for transfers, on torch's CPU, that runs its streams as late as they may run.

Work of a stream runs in order, some time later; which stream goes on is random. Memory holds
garbage until it is written and again once it is dropped, so a race of a GPU is a wrong answer here.
"""

import random
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TypeAlias

import torch
from torch import Tensor

from farpoint_server.compute.arrays import Arrangement, Array, Piece
from farpoint_server.compute.transfer.device import Block, CudaDevice
from farpoint_server.compute.transfer.graphs import Graphs
from farpoint_server.compute.work import Kernel, StreamKernel

GARBAGE = 77

FakeStream: TypeAlias = deque[tuple[str, Callable[[], object]]]
"""Work that runs in order, some time later, and its stage: upload, compute, download or event."""


class FakeBlock(Block):
    """Bytes of the host or of the device, which are overwritten when they are dropped."""

    def __init__(self, size: int) -> None:
        super().__init__(torch.full((size,), GARBAGE, dtype=torch.uint8))

    def __del__(self) -> None:
        self.array.fill(GARBAGE)


class FakeEvent:
    """The last place in a stream at which it was recorded."""

    def __init__(self, device: "FakeDevice") -> None:
        self._device, self.recorded, self.passed = device, 0, 0

    def record(self, stream: FakeStream) -> None:
        self._device.record(self, stream)

    def synchronize(self) -> None:
        self._device.run_until(self)


class FakeDevice(CudaDevice):
    """Its tensors are torch's, of the CPU.

    Args:
        seed: Of the random order.
        hurry: The chance that some work runs with each call of the device.
        most_bytes: The largest piece of memory that it gives.
    """

    def __init__(self, seed: int = 0, hurry: float = 0.5, most_bytes: int = 1 << 40) -> None:
        self.refuse: Callable[[str], None] = lambda _: None
        """Called with the name of each request; may raise the errors of a device."""
        self.log: list[str] = []
        """What the streams did, in order."""
        self.events = 0
        """Events that were made."""
        self._lots, self._hurry, self._most_bytes = random.Random(seed), hurry, most_bytes
        self._changed = threading.Condition()
        self._paused: set[str] = set()
        self._pinned: weakref.WeakSet[Block] = weakref.WeakSet()
        self._streams: list[FakeStream] = []
        self._current: FakeStream = deque()

    @property
    def pinned_sizes(self) -> list[int]:
        """Sizes of the buffers that are referenced."""
        return [block.array.nbytes for block in self._pinned]

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

    def pinned(self, size: int) -> FakeBlock:
        self._ask("pinned")
        block = FakeBlock(size)
        self._pinned.add(block)
        return block

    def memory(self, _stream: FakeStream, size: int) -> FakeBlock:
        self._ask("memory")
        if size > self._most_bytes:
            raise torch.OutOfMemoryError(f"CUDA out of memory: {size} bytes")
        return FakeBlock(size)

    def scratch_bytes(self, *_: object) -> int:
        return 0

    def start(
        self,
        kernel: StreamKernel,
        uploads: Sequence[Piece],
        blocks: tuple[Block, Block],
        inputs: Arrangement,
        outputs: Arrangement,
        stream: FakeStream,
        done: FakeEvent,
    ) -> None:
        """A kernel of C++ is one of torch here."""
        memory, target = (block.tensor for block in blocks)
        with self.on(stream):
            self._ask("start")
            for source, begin in uploads:
                self.upload(self.view(memory, begin, source.dtype, source.shape), source)
            found = self.call(kernel, self._views(memory, inputs))
            for place, output in zip(self._views(target, outputs), found, strict=True):
                self.download(place, output)
            self._give("event", found.clear)  # until then the block of memory holds them
            self.record(done, stream)

    def upload(self, target: Tensor, source: Array) -> None:
        self._copy("upload", target, torch.from_numpy(source))

    def download(self, target: Tensor, source: Tensor) -> None:
        self._copy("download", target, source.detach())

    def call(
        self, kernel: Kernel, inputs: Sequence[Tensor], _graphs: Graphs | None = None
    ) -> list[Tensor]:
        self._ask("call")
        try:
            shapes = kernel(*[each.to("meta") for each in inputs])
        except Exception:  # they depend on the values, for which the host waits
            self._finish(self._current)
            shapes = kernel(*inputs)
        outputs = [torch.full_like(shape, GARBAGE, device="cpu") for shape in shapes]
        written = [output.detach() for output in outputs]
        for output, own in zip(outputs, written, strict=True):
            weakref.finalize(output, own.numpy().fill, GARBAGE)

        def compute() -> None:
            for own, answer in zip(written, kernel(*inputs), strict=True):
                own.copy_(answer)
            self.log.append("compute")

        if outputs:
            self._give("compute", compute)
        return outputs

    def record(self, event: FakeEvent, stream: FakeStream) -> None:
        self._ask("record")
        event.recorded += 1
        with self._changed:
            stream.append(("event", lambda at=event.recorded: setattr(event, "passed", at)))

    def run_until(self, event: FakeEvent) -> None:
        """Runs work of the streams until the event has passed."""
        self.refuse("synchronize")
        with self._changed:
            while event.passed < event.recorded:
                if self._step():
                    continue
                assert self._paused, "the host waits for what never happens"
                self._changed.wait()

    def _views(self, memory: Tensor, arranged: Arrangement) -> list[Tensor]:
        places = zip(arranged.layouts, arranged.begins, strict=True)
        return [self.view(memory, begin, *layout) for layout, begin in places]

    def _copy(self, stage: str, target: Tensor, source: Tensor) -> None:
        self._ask(stage)

        def act() -> None:
            target.copy_(source)
            self.log.append(stage)

        self._give(stage, act)

    def _ask(self, what: str) -> None:
        """Checks a request of the host, and runs some work of the streams."""
        self.refuse(what)
        with self._changed:
            while self._lots.random() < self._hurry and self._step():
                pass

    def _step(self) -> bool:
        ready = [s for s in self._streams if s and s[0][0] not in self._paused]
        if not ready:
            return False
        self._run_next(self._lots.choice(ready))
        return True

    def _finish(self, stream: FakeStream) -> None:
        with self._changed:
            while stream:
                self._run_next(stream)

    def _run_next(self, stream: FakeStream) -> None:
        _, act = stream.popleft()
        with torch.inference_mode():
            act()

    def _give(self, stage: str, act: Callable[[], object]) -> None:
        with self._changed:
            self._current.append((stage, act))
