"""CRC-32C checksums of the tensors of an answer: asked for, and checked."""

import enum
import struct
from functools import lru_cache

import google_crc32c

from farpoint.errors import DataLossError
from farpoint.v1 import tensor_pb2 as pb


class Checksums(enum.Enum):
    """What a client does about them."""

    OFF = enum.auto()
    WELCOME = enum.auto()
    """Asked for and checked; a server that knows none is older, and answers without."""
    REQUIRED = enum.auto()
    """An answer without them is an error."""

    @property
    def are_wanted(self) -> bool:
        """Whether to ask for them."""
        return self is not Checksums.OFF


def choose_checksums(wanted: bool | None, is_plain: bool) -> Checksums:
    """For a client's argument; None stands for where nothing else finds damage."""
    if wanted is None:
        return Checksums.WELCOME if is_plain else Checksums.OFF
    return Checksums.REQUIRED if wanted else Checksums.OFF


def check_tensor(tensor: pb.Tensor, data: bytes, checksums: Checksums) -> None:
    """Raises DataLossError for a tensor, whose `data` is given, that was damaged on the way."""
    if not tensor.HasField("crc32c"):
        if checksums is Checksums.REQUIRED:
            raise DataLossError("the server answered without the checksums that were asked for")
        return
    head = _head_crc(tensor.data_type, *tensor.shape)
    if google_crc32c.extend(head, data) != tensor.crc32c:
        raise DataLossError(
            f"the answer was damaged on its way: the checksum of {len(data)} bytes does not fit"
        )


@lru_cache(256)
def _head_crc(*numbers: int) -> int:
    """Of the type and the sizes, which are often the same."""
    return int(google_crc32c.value(struct.pack(f"<{len(numbers)}q", *numbers)))
