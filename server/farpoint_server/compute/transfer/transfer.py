"""One batch in flight on a GPU: staged, uploaded, launched, downloaded, read.

Its copy, its kernels and the copy back follow one another on the stream of its slot. A kernel of
C++ takes all of it in one call; others are called by torch.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import accumulate
from typing import Any, Generic, TypeAlias, TypeVar

from torch import Tensor

from farpoint_server.compute.arrays import ALIGNMENT, Arrangement, Array, Piece, aligned, lay_out
from farpoint_server.compute.memory.oom import Aside
from farpoint_server.compute.transfer.device import Block, CudaDevice
from farpoint_server.compute.transfer.graphs import Graphs
from farpoint_server.compute.work import Kernel, Launch, StreamKernel

# Pinned memory of a slot, at least: a batch that the event loop begins rarely needs more, which
# the driver takes a millisecond to lock.
PINNED_BYTES = 1 << 20
# Device memory that a slot keeps for its next batch, at most; larger ones ask torch's cache.
KEPT_BYTES = 4 << 20
NOTHING = lay_out([])
Memory = TypeVar("Memory")
Outputs: TypeAlias = list[list[Array]]
"""Of each launch, in host memory."""


class Buffer(Generic[Memory]):
    """Memory that grows by powers of two; not thread-safe.

    torch caches pinned memory too, but aborts the process if some is freed after the device failed.

    Args:
        allocate: Allocates a block of a size in bytes.
        least: Bytes that it asks for at least.
    """

    def __init__(self, allocate: Callable[[int], Memory], least: int = ALIGNMENT) -> None:
        self._allocate, self._least = allocate, least
        self._memory: Memory | None = None
        self._size = 0

    def take(self, size: int) -> Memory:
        """At least `size` bytes with undefined content, until the next call."""
        if self._memory is None or size > self._size:
            self.release()  # before more is taken
            wanted = max(self._least, 1 << max(0, size - 1).bit_length())
            self._memory, self._size = self._allocate(wanted), wanted
        return self._memory

    def release(self) -> None:
        """Frees the memory, which no copy or kernel may use."""
        self._memory, self._size = None, 0


class Slot:
    """What one batch in flight uses, kept for the next one: a stream, an event, buffers."""

    def __init__(self, device: CudaDevice, aside: Aside) -> None:
        self._device, self._graphs = device, Graphs(aside)
        self.stream = device.stream()
        self.done = device.event(self.stream)
        self.source, self.target = (Buffer(device.pinned, PINNED_BYTES) for _ in range(2))
        self._memory = Buffer(partial(device.memory, self.stream))

    def launch(self, kernel: Kernel, inputs: Sequence[Tensor]) -> Sequence[Tensor]:
        """Launches a kernel on the slot's stream, which is torch's current one."""
        return self._device.call(kernel, inputs, self._graphs)

    def memory(self, size: int) -> Block:
        """Device memory for a batch."""
        if size > KEPT_BYTES:
            return self._device.memory(self.stream, size)
        return self._memory.take(size)

    def release(self, *, host: bool) -> None:
        """Drops its graphs, frees its memory of the device, and pinned memory if `host`."""
        self._graphs.clear()
        self._memory.release()
        if host:
            self.source.release()
            self.target.release()


class Transfer:
    """A batch in a slot; it keeps what the stream uses until it is dropped.

    Args:
        release_gate: Called by the queue once nothing of it is in flight.
    """

    def __init__(self, device: CudaDevice, slot: Slot, release_gate: Callable[[], None]) -> None:
        self._device, self.slot, self.release_gate = device, slot, release_gate
        self._kept: list[Any] = []
        self._counts: list[int] = []
        self._uploads: list[Piece] = []
        self._outputs = NOTHING
        self._target: Block | None = None

    def begin(self, launches: Sequence[Launch]) -> None:
        """Queues the whole batch and does not wait for any of it.

        Raises:
            Exception: what staging, allocation or a launch raised; nothing is queued then.
        """
        inputs = self._stage(launches)
        kernel = launches[0].kernel
        if len(launches) == 1 and isinstance(kernel, StreamKernel):
            self._start(kernel, inputs)
        else:
            self._launch(launches, inputs)

    def has_passed(self, most_ns: int) -> bool:
        """Whether it is done, without an error, while the thread spins for so long."""
        return self._device.has_passed(self.slot.done, most_ns)

    def wait(self) -> None:
        """Sleeps until it is done; raises the error of a lost device."""
        self.slot.done.synchronize()

    def outputs(self) -> Outputs:
        """What came back, the caller's own to keep: the buffer is reused."""
        assert self._target is not None
        memory, (layouts, begins, _) = self._target.array, self._outputs
        places = zip(layouts, begins, strict=True)
        arrays = [layout.view(memory, begin).copy() for layout, begin in places]
        ends = [*accumulate(self._counts)]
        return [arrays[end - count : end] for count, end in zip(self._counts, ends, strict=True)]

    def drop(self) -> None:
        """Frees what the stream no longer uses."""
        self._kept, self._uploads, self._target = [], [], None

    def _stage(self, launches: Sequence[Launch]) -> Arrangement:
        layouts = [layout for launch in launches for layout in launch.inputs.layouts]
        inputs = lay_out(layouts)
        staged = self.slot.source.take(inputs.size).array
        apart, end = list[Piece](), 0
        for launch in launches:
            begin, end = end, end + len(launch.inputs.layouts)
            apart += launch.inputs.fill(staged, inputs.begins[begin:end])
        self._uploads = [*_uploads(staged[: inputs.size], apart)]
        return inputs

    def _start(self, kernel: StreamKernel, inputs: Arrangement) -> None:
        slot = self.slot
        # Nothing between the outputs that no kernel writes: one copy takes them all.
        outputs = self._outputs = lay_out(kernel.layouts(), alignment=1)
        self._counts = [len(outputs.layouts)]
        self._target = slot.target.take(outputs.size)
        scratch = self._device.scratch_bytes(kernel, inputs, outputs)
        memory = slot.memory(inputs.size + aligned(outputs.size) + scratch)
        self._kept = [memory]
        blocks = memory, self._target
        try:
            self._device.start(
                kernel, self._uploads, blocks, inputs, outputs, slot.stream, slot.done
            )
        except BaseException:
            self._wait_for_what_began()
            raise

    def _launch(self, launches: Sequence[Launch], arranged: Arrangement) -> None:
        slot, outputs = self.slot, list[Sequence[Tensor]]()
        try:
            with self._device.on(slot.stream), self._recorded():
                memory = self._device.memory(slot.stream, arranged.size)
                self._kept = [memory, outputs]
                for source, begin in self._uploads:
                    target = self._device.view(memory.tensor, begin, source.dtype, source.shape)
                    self._device.upload(target, source)
                inputs = iter(self._views(memory.tensor, arranged))
                for launch in launches:
                    tensors = [next(inputs) for _ in launch.inputs.layouts]
                    outputs.append(slot.launch(launch.kernel, tensors))
                self._download(outputs)
        except BaseException:
            self._wait_for_what_began()
            raise

    def _download(self, outputs: Sequence[Sequence[Tensor]]) -> None:
        every = [output for each in outputs for output in each]
        self._counts = [len(each) for each in outputs]
        self._outputs = lay_out([self._device.layout(output) for output in every])
        self._target = self.slot.target.take(self._outputs.size)
        targets = self._views(self._target.tensor, self._outputs)
        for target, output in zip(targets, every, strict=True):
            self._device.download(target, output)

    def _views(self, memory: Tensor, arranged: Arrangement) -> list[Tensor]:
        places = zip(arranged.layouts, arranged.begins, strict=True)
        return [self._device.view(memory, begin, *layout) for layout, begin in places]

    @contextmanager
    def _recorded(self) -> Iterator[None]:
        try:
            yield
        finally:
            self.slot.done.record(self.slot.stream)

    def _wait_for_what_began(self) -> None:
        """What was queued before something failed uses the memory."""
        with suppress(Exception):
            self.wait()


def _uploads(staged: Array, apart: Sequence[Piece]) -> Iterator[Piece]:
    """What lies apart, and all between as it was staged, in order."""
    end = 0
    for piece in apart:
        if piece.begin > end:
            yield Piece(staged[end : piece.begin], end)
        yield piece
        end = piece.begin + len(piece.source)
    if end < len(staged):
        yield Piece(staged[end:], end)
