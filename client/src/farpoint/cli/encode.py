"""`farpoint encode`: one cloud file through a model, into a file of numpy arrays."""

import json
from pathlib import Path

import numpy as np

from farpoint._client import Client
from farpoint.errors import CloudFileError, InvalidArgumentError
from farpoint.io import read_cloud
from farpoint.io.atomic import replacing
from farpoint.io.cloud import Cloud
from farpoint.io.failures import naming
from farpoint.models import Encoding

SUFFIX = ".npz"


def check_output(path: Path) -> None:
    """Raises CloudFileError for anything but an .npz file."""
    if path.suffix.lower() != SUFFIX:
        raise CloudFileError(f"the output of encode must end in {SUFFIX}", path=path)


def run(client: Client, source: Path, output: Path, model: str, attributes: list[str]) -> Encoding:
    """Encodes a file.

    The arrays of stage i are named stage{i}_indices, stage{i}_points, stage{i}_features,
    stage{i}_counts and stage{i}_mean_distances.
    """
    cloud = read_cloud(source)
    encoding: Encoding = client.encode(
        cloud.points,
        model=model or None,
        attributes=_columns(cloud, attributes) if attributes else None,
    )
    arrays = {
        f"stage{i}_{name}": getattr(stage, name)
        for i, stage in enumerate(encoding.stages)
        for name in ("indices", "points", "features", "counts", "mean_distances")
    }
    with naming(output), replacing(output) as part, part.open("wb") as file:
        np.savez(file, **arrays)
    return encoding


def _columns(cloud: Cloud, names: list[str]) -> dict[str, object]:
    for name in names:
        if name not in cloud.attributes:
            known = ", ".join(cloud.attributes) or "none"
            raise InvalidArgumentError(
                f"attribute must be one of the file's ({known}), got {name!r}", field="attributes"
            )
    return {name: cloud.attributes[name] for name in names}


def report(source: Path, output: Path, encoding: Encoding, *, as_json: bool) -> None:
    """Prints what was done."""
    kept = [len(stage) for stage in encoding.stages]
    took = encoding.timings.total_ms
    if as_json:
        values = {"input": str(source), "output": str(output), "model": encoding.model}
        print(json.dumps({**values, "stages": kept, "request_id": encoding.request_id}))
    else:
        stages = ", ".join(map(str, kept))
        print(f"{source} -> {output}: {encoding.model} keeps {stages} points, {took:.1f} ms")
