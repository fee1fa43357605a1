"""Packed clouds of one call as one message with their bytes."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from farpoint._arrays import gather_attributes, split_attributes
from farpoint._connection.shared_memory import Lease
from farpoint._tensors import check_payload, wire_type
from farpoint._types import Array, CloudAttributes
from farpoint.errors import InvalidArgumentError
from farpoint.packed import PackedCloud, as_packed, check_axes
from farpoint.v1 import packed_cloud_pb2
from farpoint.v1 import sampling_pb2 as pb


@dataclass(frozen=True)
class PackedBatch:
    """The clouds of one call, each with its attributes; all have the same records."""

    clouds: list[PackedCloud]
    attributes: list[CloudAttributes]
    """Those of each cloud, with Ni rows; None for its own fields."""
    single: bool
    """Whether the caller passed one cloud and not a list, and so wants one result."""

    def describe(self, request: pb.SampleRequest, lease: Lease | None) -> list[memoryview]:
        """Describes the clouds in a request and returns their data, which is not in it yet.

        Returns:
            The bytes in pieces; none if the request refers to shared memory with them.
        """
        first, *others = self.clouds
        message = request.packed_cloud
        message.point_step, message.is_bigendian = first.point_step, first.is_bigendian
        message.fields.extend(_fields(first))
        message.width, message.height = first.width, first.height
        if first.height > 1:
            message.row_step = first.row_step
        parts = [first.data[: first.size]]
        if others:
            message.width, message.height, message.row_step = sum(map(len, self.clouds)), 1, 0
            parts = [_without_gaps(cloud) for cloud in self.clouds]
        name = None if lease is None else lease.share([np.frombuffer(p, np.uint8) for p in parts])
        if name is None:
            check_payload(sum(map(len, parts)), "packed_cloud.data")
            return parts
        message.shared_memory.region = name
        return []

    def choose(self, i: int, rows: Array) -> tuple[Array, CloudAttributes]:
        """Coordinates and attributes of some rows of a cloud."""
        chosen, attributes = self.clouds[i].take(rows), self.attributes[i]
        if attributes is None:
            return chosen.points, chosen.attributes or None
        return chosen.points, gather_attributes(attributes, rows)


def packed_batch(points: object, attributes: Any) -> PackedBatch | None:
    """The packed clouds of a call; None if some are not packed or they do not fit one message."""
    single = not isinstance(points, (list, tuple))
    clouds: list[PackedCloud] = []
    values: Iterable[Any] = points if isinstance(points, (list, tuple)) else [points]
    for i, value in enumerate(values):
        cloud = as_packed(value)
        if cloud is None or (clouds and _record(cloud) != _record(clouds[0])):
            return None
        _check(cloud, "points" if single else f"points[{i}]")
        clouds.append(cloud)
    if not clouds:
        return None
    return PackedBatch(clouds, split_attributes(attributes, clouds, single), single)


def _check(cloud: PackedCloud, name: str) -> None:
    check_axes(cloud.fields)
    if not len(cloud):
        raise InvalidArgumentError(
            f"{name} must have at least one point, got 0", field="packed_cloud.width"
        )


def _record(cloud: PackedCloud) -> tuple[object, ...]:
    return cloud.fields, cloud.point_step, cloud.is_bigendian


def _fields(cloud: PackedCloud) -> list[packed_cloud_pb2.PackedField]:
    return [
        packed_cloud_pb2.PackedField(
            name=field.name,
            offset=field.offset,
            data_type=wire_type(np.dtype(field.dtype), "packed_cloud.fields"),
            count=field.count,
        )
        for field in cloud.fields
    ]


def _without_gaps(cloud: PackedCloud) -> memoryview:
    """The bytes of the points, without a copy if the rows have no gaps."""
    row = cloud.width * cloud.point_step
    if cloud.height == 1 or cloud.row_step == row:
        view: memoryview = cloud.data[: cloud.size]
        return view
    rows = np.ndarray((cloud.height, row), np.uint8, cloud.data, strides=(cloud.row_step, 1))
    return np.ascontiguousarray(rows).reshape(-1).data
