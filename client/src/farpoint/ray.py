"""Sampling on a Ray cluster, without a server: each actor has the ops of `farpoint-ops`.

    import farpoint.ray
    clouds = ray.data.read_parquet("s3://bucket/clouds")
    farpoint.ray.sample_dataset(clouds, 1024, num_gpus=0.25).write_parquet("s3://bucket/sampled")

Needs the extra `ray`; torch is imported where the clouds are sampled, not here. `farpoint sample
FOLDER --ray` samples files the same way.
"""

import time
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from farpoint._rpcs.methods import Method
from farpoint._tensors import in_common_dtype
from farpoint._types import Array
from farpoint.errors import FailedPreconditionError, InvalidArgumentError
from farpoint.results import Sample, Timings

if TYPE_CHECKING:
    from ray.data import Dataset

Row = dict[str, Any]
MAX_POINTS = 1 << 24
"""Points that are sampled at once, as by a server with its default settings: larger clouds of files
are sampled in the same parts, so the rows are the same."""


class OpsSampler:
    """Samples on a device.

    Args:
        device: as torch names it; "cuda" is the GPU that Ray has given this process.
    """

    def __init__(self, device: str) -> None:
        try:
            from farpoint_ops.arrays import sample_array
        except ImportError as error:
            raise FailedPreconditionError(
                "sampling on Ray needs the package farpoint-ops on every node: "
                f"pip install 'farpoint[ray]' ({error})"
            ) from error
        self._sample = sample_array
        self._device = device

    def sample(
        self,
        points: Array,
        m: int | None,
        *,
        start: int = 0,
        nonfinite: Literal["reject", "ignore"] = "reject",
        radius: float | None = None,
        method: Method | None = None,
    ) -> Sample:
        """As `Client.sample` of one cloud (N, 3), with the same rows; by no other method."""
        if method is not None or (m is None and radius is None):
            raise InvalidArgumentError(
                f"on Ray give m or a radius, and no method, got {m!r}, {radius!r} and {method!r}",
                field="method",
            )
        began = time.perf_counter()
        (cloud,) = in_common_dtype([points])
        try:
            rows, distances, origin = self._sample(
                cloud,
                len(cloud) if m is None else m,
                start=start,
                nonfinite=nonfinite,
                radius=radius,
                device=self._device,
            )
        except (ValueError, IndexError) as error:
            raise InvalidArgumentError(str(error), field="points") from error
        took = (time.perf_counter() - began) * 1e3
        timings = Timings(0.0, took, took, 0.0, took)
        return Sample(rows, points[rows], None, distances, timings, origin, "")


def sample_dataset(
    ds: "Dataset",
    m: int | None = None,
    *,
    column: str = "points",
    start: int = 0,
    nonfinite: Literal["reject", "ignore"] = "reject",
    radius: float | None = None,
    num_cpus: float = 1,
    num_gpus: float = 0,
    concurrency: int | tuple[int, int] | None = None,
) -> "Dataset":
    """Adds to each row, which is a cloud, the rows of the cloud that are its sample.

    Nothing runs before the result is read or written. An actor that dies is replaced, and what it
    was at is done again; to go on after the whole job ended, use Ray Data's own checkpoints.

    Args:
        ds: with a column of clouds (Ni, 3), as arrays or as lists of lists.
        m: points to choose from each cloud; with `radius` at most, and None for as many as it
            takes.
        column: its name.
        start: row of each cloud that is chosen first.
        nonfinite: "reject" makes a row with NaN or infinity an error, "ignore" never chooses one.
        radius: where the sampling of each cloud ends, as for `Client.sample`.
        num_cpus: cores of each actor.
        num_gpus: GPUs of each actor, of one also a part; with it clouds are sampled there.
        concurrency: actors, or the fewest and the most; None leaves it to Ray Data, from one to
            as many as the cluster can run.

    Returns:
        The columns of `ds` and beside them `indices`, int64 (m,), `distances`, float32 (m,), and
        `covering_radius`; as of a `Sample`.

    Raises:
        InvalidArgumentError: there are such columns already, where the schema is known.
        ray.exceptions.RayTaskError: while it runs: a cloud is wrong, its cause says how.
    """
    known = ds.schema(fetch_if_missing=False)
    names = set() if known is None else set(known.names)
    if names and column not in names:
        raise InvalidArgumentError(
            f"column must be one of {sorted(names)}, got {column!r}", field="column"
        )
    if taken := names & {"indices", "distances", "covering_radius"}:
        raise InvalidArgumentError(f"the dataset has {sorted(taken)} already", field="ds")
    options: Row = {"start": start, "nonfinite": nonfinite, "radius": radius}
    return ds.map(
        _RowSampler,
        fn_constructor_args=(column, m, options, "cuda" if num_gpus else "cpu"),
        num_cpus=num_cpus,
        num_gpus=num_gpus,
        compute=_actors(concurrency),
    )


def _actors(concurrency: int | tuple[int, int] | None) -> Any:
    from ray.data import ActorPoolStrategy

    if isinstance(concurrency, int):
        return ActorPoolStrategy(size=concurrency)
    fewest, most = concurrency or (1, None)
    return ActorPoolStrategy(min_size=fewest, max_size=most)


class _RowSampler:
    """An actor's: made once in it, called for each row."""

    def __init__(self, column: str, m: int | None, options: Row, device: str) -> None:
        self._column, self._m, self._options = column, m, options
        self._sampler = OpsSampler(device)

    def __call__(self, row: Row) -> Row:
        points = np.asarray(row[self._column])
        if points.dtype == object:  # of lists of lists
            points = np.stack([np.asarray(point) for point in points])
        sample = self._sampler.sample(points, self._m, **self._options)
        found = {
            "indices": sample.indices,
            "distances": sample.distances,
            "covering_radius": sample.covering_radius,
        }
        return {**row, **found}
