"""Colors of a cloud, however its file spells them."""

import numpy as np

from farpoint._types import Array
from farpoint.io.cloud import Cloud

_NAMES = (
    ("red", "green", "blue"),
    ("r", "g", "b"),
    ("diffuse_red", "diffuse_green", "diffuse_blue"),
)


def colors_of(cloud: Cloud) -> Array | None:
    """(N, 3) uint8; None where the cloud has no colors, or the same one everywhere."""
    values = _find(cloud)
    if values is None or (values == values[:1]).all():
        return None
    values = np.nan_to_num(values.astype(np.float32))
    highest = float(values.max())
    # LAS has 16 bits, of which many files use eight.
    full = 1 if highest <= 1 else 255 if highest <= 255 else 65535
    return np.clip(values * (255 / full), 0, 255).astype(np.uint8)


def _find(cloud: Cloud) -> Array | None:
    by_name = {name.lower(): name for name in cloud.attributes}
    for name in ("rgb", "rgba"):
        if name in by_name and (wide := cloud.attributes[by_name[name]]).ndim == 2:
            return wide[:, :3]
    for names in _NAMES:
        if all(name in by_name for name in names):
            columns = [cloud.attributes[by_name[name]] for name in names]
            return (
                np.stack(columns, axis=1) if all(c.dtype.kind in "iuf" for c in columns) else None
            )
    return None
