"""The transform `FarthestPointSample`: keeps m points of whatever a dataset gives."""

from typing import Any, Literal

from farpoint._client import Client
from farpoint.errors import InvalidArgumentError
from farpoint.transforms.containers import Container, open_container
from farpoint.transforms.samplers import LocalSampler, RemoteSampler, Sampler


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
