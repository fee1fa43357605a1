"""Packed clouds: records in memory, as messages of ROS and Foxglove hold them."""

from farpoint.packed.cloud import PackedCloud, as_packed
from farpoint.packed.fields import PackedField

__all__ = ["PackedCloud", "PackedField", "as_packed"]
