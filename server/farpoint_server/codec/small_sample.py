"""Small Sample requests, answered in C++ from message to message."""

import ctypes

from farpoint_ops._load import LIBRARIES
from farpoint_server.codec.tensors import RequestLimits
from farpoint_server.kinds.sample import POINT_NS, SAMPLE_NS, sample_bytes

# Of a message: most besides the points, and each point.
HEAD_BYTES, POINT_BYTES = 512, 12


class _Request(ctypes.Structure):
    """As farpoint_sample_request in csrc/cpu/kernels/messages/sample_request.h."""

    _fields_ = (
        ("points", ctypes.c_int64),
        ("samples", ctypes.c_int64),
        ("start", ctypes.c_int64),
        ("data", ctypes.c_int64),
        ("response_bytes", ctypes.c_int64),
        ("return_points", ctypes.c_int32),
        ("return_distances", ctypes.c_int32),
    )


# PyDLL keeps the interpreter's lock: after half a millisecond without it, the event loop could wait
# ten times as long to get it back from another thread.
_library = ctypes.PyDLL(str(LIBRARIES / "libfarpoint_cpu.so"))
_read = _library.farpoint_read_sample_request
_read.argtypes = (ctypes.c_char_p, ctypes.c_int64, ctypes.POINTER(_Request))
_answer = _library.farpoint_answer_sample_request
_answer.argtypes = (ctypes.c_char_p, ctypes.POINTER(_Request), ctypes.c_double, ctypes.c_char_p)
_answer.restype = ctypes.c_int64


class SmallSample:
    """Work that reads a SampleRequest and is its SampleResponse, for the event loop.

    Python's objects for the parts of a request cost more than the samples of a small cloud.
    """

    __slots__ = ("_arrived", "_cost_ns", "_raw", "_request", "point_count", "samples")

    def __init__(self, raw: bytes, request: _Request, arrived: float) -> None:
        self._raw, self._request, self._arrived = raw, request, arrived
        self.point_count, self.samples = int(request.points), int(request.samples)
        self._cost_ns = POINT_NS * self.point_count + SAMPLE_NS * self.samples

    @staticmethod
    def read(
        raw: bytes, limits: RequestLimits, most_ns: int, arrived: float
    ) -> "SmallSample | None":
        """The work of a message that arrived at a moment of time.monotonic.

        None if it may take more than `most_ns`, is not of one cloud of float32 to be sampled by
        distance alone, or has wrong numbers.
        """
        size, request = len(raw), _Request()
        if (size - HEAD_BYTES) * POINT_NS > POINT_BYTES * most_ns or not _read(raw, size, request):
            return None
        if request.points > limits.points or size > limits.message_bytes:
            return None
        work = SmallSample(raw, request, arrived)
        return work if work._cost_ns <= most_ns else None

    @property
    def predicted_bytes(self) -> int:
        """Maximum bytes in memory, without the message."""
        return sample_bytes(self.point_count, 1, self.samples)

    def cost_ns(self, device_type: str = "cpu") -> int:  # noqa: ARG002  never for a GPU
        """Predicted nanoseconds."""
        return self._cost_ns

    def inline(self) -> bytes:
        """The serialized response, computed on the calling thread.

        Raises:
            ValueError: a coordinate is not finite, or memory is short; Python knows what follows.
        """
        response = ctypes.create_string_buffer(self._request.response_bytes)
        size = _answer(self._raw, self._request, self._arrived, response)
        if not size:
            raise ValueError("left to Python")
        return ctypes.string_at(response, size)
