"""Small Sample requests, answered in C++ from message to message."""

import ctypes

from farpoint_ops._load import LIBRARIES
from farpoint_server.codec.tensors import RequestLimits
from farpoint_server.kinds.sample import POINT_NS, SAMPLE_NS, sample_bytes

# Of a message, at most: what it has besides the points, and a point.
HEAD_BYTES, POINT_BYTES = 512, 24


class SampleRequest(ctypes.Structure):
    """As farpoint_sample_request in csrc/cpu/kernels/messages/sample_request.h."""

    _fields_ = (
        ("points", ctypes.c_int64),
        ("samples", ctypes.c_int64),
        ("start", ctypes.c_int64),
        ("data", ctypes.c_int64),
        ("response_bytes", ctypes.c_int64),
        ("elapsed_ns", ctypes.c_int64),
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
# ten times as long to get it back from another thread.
_library = ctypes.PyDLL(str(LIBRARIES / "libfarpoint_cpu.so"))
_read = _library.farpoint_read_sample_request
_read.argtypes = (ctypes.c_char_p, ctypes.c_int64, ctypes.c_int32, ctypes.POINTER(SampleRequest))
_answer = _library.farpoint_answer_sample_request
_answer.argtypes = (
    *(ctypes.c_char_p, ctypes.POINTER(SampleRequest), ctypes.c_double),
    *(ctypes.c_int64, ctypes.c_char_p),
)
_answer.restype = ctypes.c_int64


class SmallSample:
    """A message with a SampleRequest that C++ answers with a SampleResponse, for the event loop.

    Python's objects for the parts of a request cost more than the samples of a small cloud. What
    C++ leaves to Python, Python answers or refuses.

    Attributes:
        point_count: Of the cloud.
    """

    cost_key = "sample"
    __slots__ = ("_arrived", "_cost_ns", "_raw", "_request", "point_count")

    def __init__(self, raw: bytes, request: SampleRequest, arrived: float) -> None:
        self._raw, self._request, self._arrived = raw, request, arrived
        self.point_count = int(request.points)
        self._cost_ns = POINT_NS * self.point_count + SAMPLE_NS * self.samples

    @staticmethod
    def read(
        raw: bytes,
        limits: RequestLimits,
        budget_ns: int,
        arrived: float,
        *,
        is_streamed: bool = False,
    ) -> "SmallSample | None":
        """The request in a message; None if it is left to Python.

        Args:
            raw: A SampleRequest; a SampleStreamRequest if `is_streamed`.
            limits: What one request may hold.
            budget_ns: Nanoseconds that it may be predicted to take.
            arrived: When it did, by time.monotonic.
        """
        size, request = len(raw), SampleRequest()
        if (size - HEAD_BYTES) * POINT_NS > POINT_BYTES * budget_ns:
            return None
        if not _read(raw, size, is_streamed, request):
            return None
        if request.points > limits.points or size > limits.message_bytes:
            return None
        work = SmallSample(raw, request, arrived)
        return work if work._cost_ns <= budget_ns else None

    def cost_ns(self, device_type: str = "cpu") -> int:  # noqa: ARG002  never for a GPU
        """Predicted nanoseconds."""
        return self._cost_ns

    @property
    def samples(self) -> int:
        """Number of samples; until it is answered, the maximum of a request with a radius."""
        return int(self._request.samples)

    @property
    def predicted_bytes(self) -> int:
        """Maximum bytes in memory, without the message."""
        return sample_bytes(self.point_count, 1, self.samples)

    def inline(self, budget_ns: int) -> bytes | None:
        """The serialized SampleResponse, computed on the calling thread.

        None if it is left to Python: too few coordinates are finite, memory is short, or the budget
        ran out.
        """
        response = ctypes.create_string_buffer(self._request.response_bytes)
        size = _answer(self._raw, self._request, self._arrived, budget_ns, response)
        return ctypes.string_at(response, size) if size else None
