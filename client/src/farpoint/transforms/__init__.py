"""Transforms for data pipelines: torch DataLoader, PyTorch Geometric, Pointcept.

from farpoint.transforms import FarthestPointSample

FarthestPointSample(1024)                           # in this process, by farpoint_ops
FarthestPointSample(1024, server="gpu-node:50051")  # by a server, the same indices
"""

from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from farpoint._client import Client
from farpoint._tensors import in_common_dtype
from farpoint._types import Array
from farpoint.errors import InvalidArgumentError
from farpoint.transforms.containers import Container, open_container

__all__ = ["FarthestPointSample"]

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
            from farpoint_ops.arrays import sample_array
        except ModuleNotFoundError as error:
            if not (error.name or "").startswith("farpoint_ops"):  # torch, say
                raise
            raise ImportError(
                "sampling in this process needs the package farpoint-ops; "
                'server="HOST:PORT" samples on a server instead'
            ) from error
        try:
            return [
                sample_array(cloud, count, start=self._start, nonfinite=self._nonfinite).rows
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


class FarthestPointSample:
    """Keeps m points of each cloud by farthest point sampling, in order of choice.

    What has one row per point is cut to the chosen rows, everything else stays, and the input
    itself is not changed:

    * an array or tensor (N, 3 + C): its first three columns are coordinates;
    * a dict, as in Pointcept: coordinates in "coord", "pos", "points" or "xyz"; the keys of
      "index_valid_keys", or without these every array or tensor with N rows. With "offset", the
      ends of several clouds, m points of each are kept and "offset" is made anew;
    * a `Data` of PyTorch Geometric: coordinates in `pos`;
    * a tuple or list such as (points, labels): coordinates in the first three columns of its
      first element.

    It can be pickled, and so go to the workers of a DataLoader.

    Args:
        m: points to keep of each cloud.
        server: None samples in this process on the CPU, which needs the package `farpoint-ops`.
            A target such as "gpu-node:50051", or a `Client`, samples there. The indices are the
            same.
        start: row of each cloud that is chosen first.
        fewer: "error" refuses a cloud of fewer than m points, "keep" keeps all of its points,
            in order of choice.
        nonfinite: "reject" makes a row with NaN or infinity an error; "ignore" never chooses it.
        key: where a dict has its coordinates; None looks under the names above.

    Raises:
        InvalidArgumentError: an argument, or later a cloud, is wrong.
        ImportError: `server` is None and `farpoint-ops` is not installed; at the first cloud.
        FarpointError: the server failed.
    """

    def __init__(
        self,
        m: int,
        *,
        server: str | Client | None = None,
        start: int = 0,
        fewer: Literal["error", "keep"] = "error",
        nonfinite: Literal["reject", "ignore"] = "reject",
        key: str | None = None,
    ) -> None:
        if m < 1:
            raise InvalidArgumentError(f"m must be at least 1, got {m}", field="m")
        if fewer not in ("error", "keep"):
            raise InvalidArgumentError(
                f'fewer must be "error" or "keep", got {fewer!r}', field="fewer"
            )
        self.m = m
        self.fewer = fewer
        self.key = key
        self._sampler: Sampler = (
            LocalSampler(start, nonfinite)
            if server is None
            else RemoteSampler(server, start, nonfinite)
        )

    def __call__(self, data: Any) -> Any:
        """`data` with the chosen points alone, in the form it came in."""
        container = open_container(data, self.key)
        return container.select(self._sampler(container.clouds, self._counts(container)))

    forward = __call__
    """As the transforms of PyTorch Geometric name it."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.m}, {self._sampler})"

    def _counts(self, container: Container) -> list[int]:
        """How many points of each cloud are kept."""
        sizes = [len(cloud) for cloud in container.clouds]
        if self.fewer == "error" and min(sizes, default=self.m) < self.m:
            raise InvalidArgumentError(
                f'a cloud has {min(sizes)} points, fewer than m = {self.m}: fewer="keep" keeps all',
                field="m",
            )
        return [min(self.m, size) for size in sizes]
