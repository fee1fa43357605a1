"""The mix of requests: kinds, and how often each comes."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from farpoint._rpcs.sample import SampleRpc
from farpoint.errors import InvalidArgumentError
from farpoint.io import read_cloud

_SIZE = re.compile(r"(\d+):(\d+)(?::(\d+(?:\.\d+)?))?")


@dataclass(frozen=True)
class Kind:
    """Requests of one cloud.

    Args:
        points: of the cloud.
        samples: that are chosen of them.
        share: of all requests, beside the shares of the other kinds.
    """

    points: int
    samples: int
    share: float = 1.0

    @classmethod
    def parse(cls, text: str) -> "Kind":
        """From "POINTS:SAMPLES" or "POINTS:SAMPLES:SHARE".

        Raises:
            InvalidArgumentError: it is something else, or more samples than points.
        """
        match = _SIZE.fullmatch(text)
        if match:
            kind = cls(int(match[1]), int(match[2]), float(match[3] or 1))
            if 1 <= kind.samples <= kind.points and kind.share > 0:
                return kind
        raise InvalidArgumentError(
            "--size must be POINTS:SAMPLES or POINTS:SAMPLES:SHARE, with samples from 1 to points "
            f"and a share above 0, got {text!r}",
            field="size",
        )


def make_requests(kinds: Sequence[Kind], cloud: Path | None, seed: int) -> list[bytes]:
    """One serialized Sample request of each kind.

    Args:
        kinds: of requests.
        cloud: a file whose points are drawn from, again and again if there are too few; None for
            points of a wavy surface, as scanners see them.
        seed: of what is drawn.
    """
    random = np.random.default_rng(seed)
    scan = None if cloud is None else np.asarray(read_cloud(cloud).points, np.float32)
    requests = []
    for kind in kinds:
        if scan is None:
            points = _surface(kind.points, random)
        else:
            points = scan[random.choice(len(scan), kind.points, replace=kind.points > len(scan))]
        rpc = SampleRpc(points, kind.samples, nonfinite="ignore")
        requests.append(rpc.request.SerializeToString())
    return requests


def _surface(count: int, random: np.random.Generator) -> NDArray[np.float32]:
    """Points (count, 3) of a height field, ten by ten."""
    x, y = random.uniform(0, 10, (2, count))
    z = np.sin(x) * np.cos(1.3 * y) + random.normal(0, 0.01, count)
    return np.stack([x, y, z], axis=1).astype(np.float32)
