"""Sample requests that C++ reads and answers, from message to message."""

import ctypes
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from farpoint_ops._load import LIBRARIES
from farpoint_server.codec.tensors import RequestLimits
from farpoint_server.compute.arrays import Array, Layout, Piece, address_of
from farpoint_server.compute.work import Launch, Outcome, Work
from farpoint_server.kinds.sample import (
    POINT_NS,
    SAMPLE_NS,
    SampleKernel,
    gpu_ns,
    sample_bytes,
)

# Of a message, at most: what it has besides the points, and a point.
HEAD_BYTES, POINT_BYTES = 512, 24
_FLOAT32, _INT64 = np.dtype(np.float32), np.dtype(np.int64)
# With a radius, how long it takes is only known from its points.
RADIUS_NS = 500_000


class SampleRequest(ctypes.Structure):
    """As farpoint_sample_request in csrc/cpu/kernels/messages/sample_request.h."""

    _fields_ = (
        ("points", ctypes.c_int64),
        ("samples", ctypes.c_int64),
        ("start", ctypes.c_int64),
        ("data", ctypes.c_int64),
        ("response_bytes", ctypes.c_int64),
        ("origin", ctypes.c_double * 3),
        ("radius", ctypes.c_float),
        ("is_float64", ctypes.c_int32),
        ("ignore_nonfinite", ctypes.c_int32),
        ("return_points", ctypes.c_int32),
        ("return_distances", ctypes.c_int32),
        ("return_checksums", ctypes.c_int32),
        ("is_valid", ctypes.c_int32),
    )


# PyDLL keeps the interpreter's lock: after half a millisecond without it, the event loop could wait
# ten times as long to get it back from another thread. Clouds of a batch are read on any thread.
_library = ctypes.PyDLL(str(LIBRARIES / "libfarpoint_cpu.so"))
_read = _library.farpoint_read_sample_request
_read.argtypes = (ctypes.c_char_p, ctypes.c_int64, ctypes.c_int32, ctypes.POINTER(SampleRequest))
_answer = _library.farpoint_answer_sample_request
_answer.argtypes = (
    *(ctypes.c_char_p, ctypes.POINTER(SampleRequest), ctypes.c_double),
    *(ctypes.c_int64, ctypes.c_char_p),
)
_answer.restype = ctypes.c_int64
_write = _library.farpoint_write_sample_response
_write.argtypes = (
    *(ctypes.c_char_p, ctypes.POINTER(SampleRequest), ctypes.c_void_p, ctypes.c_void_p),
    *(ctypes.c_int64, ctypes.c_double, ctypes.c_double, ctypes.c_double, ctypes.c_char_p),
)
_write.restype = ctypes.c_int64
_read_clouds = ctypes.CDLL(_library._name).farpoint_read_clouds
_read_clouds.argtypes = (*(ctypes.c_void_p, ctypes.c_void_p), ctypes.c_int64, ctypes.c_void_p)
_read_clouds.restype = None


class _Rows(NamedTuple):
    """The samples of one request among those of a batch."""

    rows: Array
    distances: Array | None
    first_row: int
    """Of its cloud."""


class RawSample(Work["bytes | _Rows | None"]):
    """A message with a SampleRequest, which C++ answers with a SampleResponse.

    Python's objects for the parts of a request cost more than the samples of a small cloud. What
    C++ leaves to Python, Python answers or refuses. An idle CPU samples it in the call that answers
    it. In a batch it is read into the array of all clouds, in one pass that checks its values.
    """

    batch_key: ClassVar[str] = "raw sample"
    begins_on_loop: ClassVar[bool] = True
    cost_key = "sample"
    cloud_count = 1
    __slots__ = ("_arrived", "_cpu_ns", "_raw", "_request", "point_count", "samples")

    def __init__(self, raw: bytes, request: SampleRequest, arrived: float) -> None:
        self._raw, self._request, self._arrived = raw, request, arrived
        self.point_count, self.samples = int(request.points), int(request.samples)
        self._cpu_ns = POINT_NS * self.point_count + SAMPLE_NS * self.samples

    @staticmethod
    def read(
        raw: bytes,
        limits: RequestLimits,
        budget_ns: int,
        arrived: float,
        *,
        is_streamed: bool = False,
    ) -> "RawSample | None":
        """The request in a message; None if it is left to Python.

        Args:
            raw: A SampleRequest; a SampleStreamRequest if `is_streamed`.
            limits: Of a request.
            budget_ns: Nanoseconds of a core that it may be predicted to take.
            arrived: When it did, by time.monotonic.
        """
        size, request = len(raw), SampleRequest()
        if (size - HEAD_BYTES) * POINT_NS > POINT_BYTES * budget_ns:
            return None
        if not _read(raw, size, is_streamed, request):
            return None
        if request.points > limits.points or size > limits.message_bytes:
            return None
        if request.radius >= 0:
            budget_ns = min(budget_ns, RADIUS_NS)
        work = RawSample(raw, request, arrived)
        return work if work._cpu_ns <= budget_ns else None

    def cost_ns(self, device_type: str) -> int:
        if device_type == "cpu":
            return self._cpu_ns
        return gpu_ns(self.point_count, self.samples)

    @property
    def message_bytes(self) -> int:
        """Of the request."""
        return len(self._raw)

    @property
    def response_bytes(self) -> int:
        """At most."""
        return int(self._request.response_bytes)

    def inline(self, budget_ns: int) -> bytes | None:
        """The serialized SampleResponse, computed on the calling thread.

        None if it is left to Python: too few coordinates are finite, memory is short, or the budget
        ran out.
        """
        response = ctypes.create_string_buffer(self._request.response_bytes)
        size = _answer(self._raw, self._request, self._arrived, budget_ns, response)
        self.samples = int(self._request.samples)
        return ctypes.string_at(response, size) if size else None

    def samples_of(self, outcome: "Outcome[bytes | _Rows | None]") -> int:
        """Number of samples of an answer."""
        result = outcome.result
        # A radius may have ended the cloud before the last places.
        if not isinstance(result, _Rows):
            return self.samples
        return int(np.count_nonzero(result.rows >= 0))

    def respond(self, outcome: "Outcome[bytes | _Rows | None]") -> bytes | None:
        """The serialized SampleResponse; None if too few coordinates are finite."""
        result = outcome.result
        if not isinstance(result, _Rows):
            return result
        rows, distances, first_row = result
        response = ctypes.create_string_buffer(self._request.response_bytes)
        size = _write(
            self._raw,
            self._request,
            address_of(rows),
            None if distances is None else address_of(distances),
            first_row,
            outcome.queue_ms,
            outcome.compute_ms,
            self._arrived,
            response,
        )
        self.samples = int(self._request.samples)
        return ctypes.string_at(response, size) if size else None

    @classmethod
    def batch_bytes(cls, works: "Sequence[RawSample]") -> int:
        points = sum([work.point_count for work in works])
        return sample_bytes(points, len(works), sum([work.samples for work in works]))

    @classmethod
    def launches(cls, works: "Sequence[RawSample]") -> Sequence[Launch]:
        lengths, counts = [work.point_count for work in works], [work.samples for work in works]
        kernel = SampleKernel(
            points=sum(lengths),
            clouds=len(works),
            samples=sum(counts),
            longest=max(lengths),
            most=max(counts),
            with_distances=any(work._request.return_distances for work in works),
        )
        return [Launch(kernel, _Clouds(works, kernel.points))]

    @classmethod
    def answers(cls, works: "Sequence[RawSample]", outputs: Sequence[Sequence[Array]]) -> list[Any]:
        """The samples of each request; None for one that has too few finite coordinates."""
        ((rows, *distances),) = outputs
        answers: list[_Rows | None] = []
        first_row = end = 0
        for work in works:
            begin, end = end, end + work.samples
            own = distances[0][begin:end] if distances else None
            is_valid = work._request.is_valid
            answers.append(_Rows(rows[begin:end], own, first_row) if is_valid else None)
            first_row += work.point_count
        return answers


class _Clouds:
    """The arrays of a batch of messages, which C++ reads in one pass: the inputs of the kernel."""

    def __init__(self, works: Sequence[RawSample], points: int) -> None:
        self._works = works
        number = (len(works),)
        ends = Layout(_INT64, (len(works) + 1,))
        self.layouts = [Layout(_FLOAT32, (points, 3)), ends, ends, Layout(_INT64, number)]
        if any(work._request.radius >= 0 for work in works):
            self.layouts.append(Layout(_FLOAT32, number))

    def fill(self, memory: Array, begins: Sequence[int]) -> Sequence[Piece]:
        """Writes them; each request then knows whether it is valid."""
        count, address = len(self._works), address_of(memory)
        messages = (ctypes.c_char_p * count)(*[work._raw for work in self._works])
        requests = [ctypes.addressof(work._request) for work in self._works]
        arrays = (ctypes.c_void_p * 5)(*[address + begin for begin in begins])
        _read_clouds(messages, (ctypes.c_void_p * count)(*requests), count, arrays)
        return ()
