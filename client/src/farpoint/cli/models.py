"""`farpoint models`, `load` and `encode`: a server's models, and one cloud file through one."""

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np

from farpoint._client import Client
from farpoint.errors import CloudFileError, InvalidArgumentError
from farpoint.io import read_cloud
from farpoint.io.cloud import Cloud
from farpoint.io.files import naming, replacing
from farpoint.models import Encoding, Model

_SUFFIX = ".npz"


def check_output(path: Path) -> None:
    """Raises CloudFileError for anything but an .npz file."""
    if path.suffix.lower() != _SUFFIX:
        raise CloudFileError(f"the output of encode must end in {_SUFFIX}", path=path)


def encode(
    client: Client, source: Path, output: Path, model: str, attributes: list[str], *, as_json: bool
) -> None:
    """Encodes a file and prints a line about it.

    The arrays of stage i are named stage{i}_indices, stage{i}_points, stage{i}_features,
    stage{i}_counts and stage{i}_mean_distances.
    """
    cloud = read_cloud(source)
    encoding: Encoding = client.encode(
        cloud.points, model or None, _columns(cloud, attributes) if attributes else None
    )
    arrays = {
        f"stage{i}_{name}": getattr(stage, name)
        for i, stage in enumerate(encoding.stages)
        for name in ("indices", "points", "features", "counts", "mean_distances")
    }
    with naming(output), replacing(output) as part, part.open("wb") as file:
        np.savez(file, **arrays)
    _report(source, output, encoding, as_json=as_json)


def _columns(cloud: Cloud, names: list[str]) -> dict[str, object]:
    for name in names:
        if name not in cloud.attributes:
            known = ", ".join(cloud.attributes) or "none"
            raise InvalidArgumentError(
                f"attribute must be one of the file's ({known}), got {name!r}", field="attributes"
            )
    return {name: cloud.attributes[name] for name in names}


def _report(source: Path, output: Path, encoding: Encoding, *, as_json: bool) -> None:
    kept = [len(stage) for stage in encoding.stages]
    took = encoding.timings.total_ms
    if as_json:
        values = {"input": str(source), "output": str(output), "model": encoding.model}
        print(json.dumps({**values, "stages": kept, "request_id": encoding.request_id}))
    else:
        stages = ", ".join(map(str, kept))
        print(f"{source} -> {output}: {encoding.model} keeps {stages} points, {took:.1f} ms")


def show(models: list[Model], *, as_json: bool) -> None:
    """Prints one line per model."""
    for model in models:
        print(json.dumps(asdict(model)) if as_json else _as_text(model))
    if not models and not as_json:
        print("no model is loaded")


def _as_text(model: Model) -> str:
    rates = ", ".join(f"{rate:.3g}" for rate in model.rates)
    takes = f", {model.attribute_channels} attributes" if model.attribute_channels else ""
    return (
        f"{model.name}: {len(model.rates)} stages keep {rates} of their points, "
        f"{model.feature_channels} features{takes}, {model.parameter_count:,} parameters"
    )
