"""Sampling on a Ray cluster, without a server: each actor has the ops of `farpoint-ops`.

    import farpoint.ray
    clouds = ray.data.read_parquet("s3://bucket/clouds")
    farpoint.ray.sample_dataset(clouds, 1024, num_gpus=0.25).write_parquet("s3://bucket/sampled")

Needs the extra `ray`; torch is imported where the clouds are sampled, not here.
"""

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from farpoint._tensors import in_common_dtype
from farpoint.errors import FailedPreconditionError, InvalidArgumentError

if TYPE_CHECKING:
    from ray.data import Dataset

Row = dict[str, Any]


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
        RowSampler,
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


class RowSampler:
    """An actor's: made once in it, called for each row; the arguments are those of the dataset.

    Args:
        device: as torch names it; "cuda" is the GPU that Ray has given this process.
    """

    def __init__(self, column: str, m: int | None, options: Row, device: str) -> None:
        if m is None and options.get("radius") is None:
            raise InvalidArgumentError("give m, a radius, or both", field="m")
        try:
            from farpoint_ops.arrays import sample_array
        except ImportError as error:
            raise FailedPreconditionError(
                "sampling on Ray needs the package farpoint-ops on every node: "
                f"pip install 'farpoint[ray]' ({error})"
            ) from error
        self._column, self._m, self._sample = column, m, sample_array
        self._options = {**options, "device": device}

    def __call__(self, row: Row) -> Row:
        points = np.asarray(row[self._column])
        if points.dtype == object:  # of lists of lists
            points = np.stack([np.asarray(point) for point in points])
        (cloud,) = in_common_dtype([points])
        try:
            m = len(cloud) if self._m is None else self._m
            rows, distances, _ = self._sample(cloud, m, **self._options)
        except (ValueError, IndexError) as error:
            raise InvalidArgumentError(str(error), field="points") from error
        found = {"indices": rows, "distances": distances, "covering_radius": float(distances[-1])}
        return {**row, **found}
