"""CRC-32C checksums of the tensors of an answer: asked for, and checked."""

import enum
import struct

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
    head = struct.pack(f"<{1 + len(tensor.shape)}q", tensor.data_type, *tensor.shape)
    if google_crc32c.extend(google_crc32c.value(head), data) != tensor.crc32c:
        raise DataLossError(
            f"the answer was damaged on its way: the checksum of {len(data)} bytes does not fit"
        )
