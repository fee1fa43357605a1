"""Farthest point sampling for transforms: in this process, or by a server."""

from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from farpoint._client import Client
from farpoint._tensors import in_common_dtype
from farpoint._types import Array
from farpoint.errors import InvalidArgumentError

Rows = NDArray[np.int64]
Nonfinite = Literal["reject", "ignore"]


class Sampler(Protocol):
    """Chooses points of clouds."""

    def __call__(self, clouds: list[Array], counts: list[int]) -> list[Rows]:
        """The chosen rows of each cloud (Ni, 3), as many as its count, in order of choice."""


class LocalSampler:
    """By the ops of the package `farpoint-ops`, which brings torch; imported at the first cloud."""

    def __init__(self, start: int, nonfinite: Nonfinite) -> None:
        self._start = start
        self._nonfinite = nonfinite

    def __call__(self, clouds: list[Array], counts: list[int]) -> list[Rows]:
        try:
            from farpoint_ops.arrays import furthest_point_sample_array
        except ModuleNotFoundError as error:
            if not (error.name or "").startswith("farpoint_ops"):  # torch, say
                raise
            raise ImportError(
                "sampling in this process needs the package farpoint-ops; "
                'server="HOST:PORT" samples on a server instead'
            ) from error
        try:
            return [
                furthest_point_sample_array(
                    cloud, count, start=self._start, nonfinite=self._nonfinite
                )
                # In the dtype that a server would be sent.
                for cloud, count in zip(in_common_dtype(clouds), counts, strict=True)
            ]
        except (ValueError, IndexError) as error:
            raise InvalidArgumentError(str(error), field="points") from error

    def __repr__(self) -> str:
        return "local"


class RemoteSampler:
    """By a server; all clouds in one call."""

    def __init__(self, server: str | Client, start: int, nonfinite: Nonfinite) -> None:
        self._client = Client(server) if isinstance(server, str) else server
        self._start = start
        self._nonfinite = nonfinite

    def __call__(self, clouds: list[Array], counts: list[int]) -> list[Rows]:
        samples = self._client.sample(clouds, counts, start=self._start, nonfinite=self._nonfinite)
        return [sample.indices for sample in samples]

    def __repr__(self) -> str:
        return f"server={self._client.target!r}"
