"""Correctness checks of a server's response, run once before it is timed."""

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from farpoint.v1 import sampling_pb2 as pb

# Samplers round distances in their own ways, which decides between points that are all but tied.
ROUNDING = 1e-5


class WrongAnswerError(Exception):
    """The fault of an answer."""


def samples_of(reply: bytes) -> bytes:
    return pb.SampleResponse.FromString(reply).indices.data


def points_of(reply: bytes) -> bytes:
    return pb.SampleResponse.FromString(reply).points.data


def equals(expected: bytes, decode: Callable[[bytes], bytes]) -> Callable[[bytes], None]:
    """Whether the decoded answer is what is expected."""

    def check(reply: bytes) -> None:
        if decode(reply) != expected:
            raise WrongAnswerError("the answer is not what was sent")

    return check


def farthest_points(
    cloud: np.ndarray, count: int, decode: Callable[[bytes], bytes]
) -> Callable[[bytes], None]:
    """Whether int32 rows are distinct, and each is as far from those before as brute force finds.

    The first may be any: fpsample's bucket sampler does not honour a start index.
    """

    def check(reply: bytes) -> None:
        rows = np.frombuffer(decode(reply), "<i4")
        if len(rows) != count or len(np.unique(rows)) != count:
            raise WrongAnswerError(f"{len(np.unique(rows))} distinct of {len(rows)}, not {count}")
        nearest = np.full(len(cloud), np.inf, np.float32)
        for i, (previous, chosen) in enumerate(pairwise(rows)):
            offsets = cloud - cloud[previous]
            np.minimum(nearest, np.einsum("ij,ij->i", offsets, offsets), out=nearest)
            if nearest[chosen] < nearest.max() * (1 - ROUNDING):
                raise WrongAnswerError(f"sample {i + 1} is not the farthest point")

    return check
