"""The C++ of transfers: csrc/cuda/serving, in the library of our CUDA kernels."""

import ctypes
from functools import cache

from farpoint_ops._load import LIBRARIES


class Upload(ctypes.Structure):
    """As farpoint_upload in csrc/cuda/serving/sample_batch.h."""

    _fields_ = (
        ("source", ctypes.c_void_p),
        ("offset", ctypes.c_int64),
        ("bytes", ctypes.c_int64),
    )


class SampleBatch(ctypes.Structure):
    """As farpoint_sample_batch in csrc/cuda/serving/sample_batch.h."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("uploads", "memory", "target", "stream", "event")),
        *(
            (name, ctypes.c_int64)
            for name in (
                *("upload_count", "target_bytes", "outputs", "scratch"),
                *("points", "offsets", "sample_offsets", "starts", "radii", "distances"),
                *("rows", "samples"),
            )
        ),
        *((name, ctypes.c_int32) for name in ("clouds", "max_points", "max_samples", "device")),
    )


@cache
def library() -> ctypes.CDLL:
    """Its functions; each releases the interpreter's lock while it runs."""
    loaded = ctypes.CDLL(str(LIBRARIES / "libfarpoint_cuda.so"))
    for name, arguments, result in (
        ("farpoint_sample_scratch", (ctypes.POINTER(SampleBatch),), ctypes.c_int64),
        ("farpoint_sample_start", (ctypes.POINTER(SampleBatch),), ctypes.c_int32),
        ("farpoint_wait", (ctypes.c_void_p, ctypes.c_int64), ctypes.c_int32),
        ("farpoint_cuda_error", (ctypes.c_int32,), ctypes.c_char_p),
        ("farpoint_pin", (ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32), ctypes.c_int32),
        ("farpoint_unpin", (ctypes.c_void_p, ctypes.c_int32), ctypes.c_int32),
    ):
        function = getattr(loaded, name)
        function.argtypes, function.restype = arguments, result
    return loaded
