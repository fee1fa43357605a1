"""Point arrays of VTK files as attributes of a cloud."""

import numpy as np

from farpoint._types import Array

# VTK's names in legacy files and in XML.
TYPES = {
    "bit": "u1",
    "char": "i1",
    "unsigned_char": "u1",
    "short": "i2",
    "unsigned_short": "u2",
    "int": "i4",
    "unsigned_int": "u4",
    "long": "i8",
    "unsigned_long": "u8",
    "vtkidtype": "i8",
    "vtktypeint64": "i8",
    "float": "f4",
    "double": "f8",
}
XML_TYPES = {
    f"{n}{8 * s}": f"{k}{s}" for n, k in (("Int", "i"), ("UInt", "u")) for s in (1, 2, 4, 8)
}
XML_TYPES |= {"Float32": "f4", "Float64": "f8"}


def as_attribute(values: Array, points: int, components: int) -> Array:
    """(points,) or (points, components), in the machine's own byte order."""
    shaped = values.reshape(points, components)
    native = np.ascontiguousarray(shaped.astype(shaped.dtype.newbyteorder("="), copy=False))
    return native[:, 0] if components == 1 else native
