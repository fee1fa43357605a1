"""CRC-32C of the tensors of answers, as the field `crc32c` of their messages."""

import struct
from collections.abc import Sequence
from functools import lru_cache

import google_crc32c
import numpy as np

from farpoint.v1 import tensor_pb2
from farpoint_server.codec.fields import FIXED32, Buffer

_FIELD = struct.Struct("<BI")
_TAG = tensor_pb2.Tensor.CRC32C_FIELD_NUMBER << 3 | FIXED32


def checksum_field(data_type: int, shape: Sequence[int], data: Buffer) -> bytes:
    """The serialized field `crc32c` of a tensor."""
    # google_crc32c takes arrays, not memoryviews.
    elements = np.frombuffer(data, np.uint8) if len(data) else b""
    crc = google_crc32c.extend(_head_crc(data_type, tuple(shape)), elements)
    return _FIELD.pack(_TAG, crc)


@lru_cache(1024)
def _head_crc(data_type: int, shape: tuple[int, ...]) -> int:
    head = struct.pack(f"<{1 + len(shape)}q", data_type, *shape)
    return int(google_crc32c.value(head))
