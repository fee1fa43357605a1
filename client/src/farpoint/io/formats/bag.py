"""Recordings of ROS through rosbags, of the optional extra `io`: MCAP, rosbag2 and ROS 1 bags."""

from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from farpoint._adapters import split_records
from farpoint._types import Array
from farpoint.io.cloud import Cloud, ReadOptions
from farpoint.io.files import require
from farpoint.io.records import unpack_color
from farpoint.packed import PackedCloud

MESSAGE_TYPE = "sensor_msgs/msg/PointCloud2"


def read(path: Path, options: ReadOptions) -> Cloud:
    """Reads one cloud of a recording: the options' message of the options' topic."""
    highlevel = require("rosbags.highlevel", "A recording")
    typesys = require("rosbags.typesys", "A recording")
    latest = typesys.get_typestore(typesys.Stores.LATEST)
    try:
        with highlevel.AnyReader([path], default_typestore=latest) as reader:
            topic, connections = _choose(reader.connections, options.topic)
            total = sum(connection.msgcount for connection in connections)
            message = _message(reader, connections, topic, options.message, total)
    except highlevel.AnyReaderError as error:
        raise ValueError(str(error)) from error
    records = PackedCloud.from_ros(message).records
    points, attributes = split_records(records)
    attributes = unpack_color(_native(attributes))
    notes = [f"message {options.message} of {total} on {topic}, frame {message.header.frame_id}"]
    names = [field.name for field in message.fields]
    if len(names) > len(records.dtype.names or ()):
        lost = [repr(n) for i, n in enumerate(names) if not n or n in names[:i]]
        notes.append(f"left out: fields without a name or of one that is taken: {', '.join(lost)}")
    return Cloud(points, attributes, unit="metre", notes=tuple(notes))


def _choose(connections: Any, wanted: str | None) -> tuple[str, list[Any]]:
    clouds = [c for c in connections if c.msgtype == MESSAGE_TYPE]
    topics = sorted({connection.topic for connection in clouds})
    listed = ", ".join(topics) or "none"
    if wanted is not None and wanted not in topics:
        raise ValueError(f"no PointCloud2 on {wanted}; topics with clouds: {listed}")
    if wanted is None and len(topics) != 1:
        raise ValueError(f"topics with PointCloud2: {listed}; choose one with --topic NAME")
    topic = wanted or topics[0]
    return topic, [connection for connection in clouds if connection.topic == topic]


def _message(reader: Any, connections: list[Any], topic: str, index: int, total: int) -> Any:
    if not 0 <= index < total:
        raise ValueError(f"message must be from 0 to {total - 1} of {topic}, got {index}")
    found = next(islice(reader.messages(connections), index, None), None)
    if found is None:
        raise ValueError(f"{total} messages announced on {topic}, fewer found")
    connection, _, data = found
    return reader.deserialize(data, connection.msgtype)


def _native(attributes: dict[str, Array]) -> dict[str, Array]:
    """Copies of the columns in the machine's byte order."""
    return {k: np.ascontiguousarray(v, v.dtype.newbyteorder("=")) for k, v in attributes.items()}
