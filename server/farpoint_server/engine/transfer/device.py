"""The interface of a device to transfers: memory on both sides, copies, streams and events.

There is nothing here that waits for the whole device, or for a whole stream.
"""

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Tensor = TypeVar("Tensor")
Kernel = Callable[..., Sequence[Tensor]]


class DeviceStream(Enum):
    """A queue of the device: in order by itself, ordered against the others by events alone."""

    UPLOAD = "upload"
    COMPUTE = "compute"
    DOWNLOAD = "download"


class Event(Protocol):
    """A place in a stream."""

    def synchronize(self) -> None:
        """Has the thread that calls sleep until the stream got here; raises what went wrong."""
        ...


class Device(Protocol[Tensor]):
    """One device. `Tensor` is memory of the host or of the device, seen as an array."""

    def pinned(self, size: int) -> Tensor:
        """Bytes of the host, page-locked, so that copies need not stop over elsewhere."""
        ...

    def empty(self, size: int, stream: DeviceStream) -> Tensor:
        """Bytes of the device, first used by `stream`; once dropped, that stream may get them."""
        ...

    def view(
        self, memory: Tensor, begin: int, dtype: "np.dtype[Any]", shape: Sequence[int]
    ) -> Tensor:
        """A part of bytes as an array."""
        ...

    def layout(self, tensor: Tensor) -> "tuple[np.dtype[Any], tuple[int, ...]]":
        """Type and shape."""
        ...

    def array(self, pinned: Tensor) -> Array:
        """Host memory itself, to be read and written while no copy is at it."""
        ...

    def copy(self, target: Tensor, source: Tensor, stream: DeviceStream) -> None:
        """Begins a copy between the host and the device, and does not wait for it."""
        ...

    def call(self, kernel: "Kernel[Tensor]", inputs: Sequence[Tensor]) -> Sequence[Tensor]:
        """Launches what `kernel` launches, on the compute stream; its outputs are still to come."""
        ...

    def record(self, stream: DeviceStream) -> Event:
        """The end of what was given to a stream until now."""
        ...

    def wait(self, stream: DeviceStream, event: Event) -> None:
        """Nothing that `stream` is given from now on happens before the event."""
        ...
