"""ROS 2 node that samples each PointCloud2 of a topic by a Farpoint server, the newest first.

    python examples/ros2_node.py --ros-args -r points:=/lidar/points -p m:=4096

Subscribes to `points` and publishes `points/sampled`: m points of each message, with all of its
fields. While the server is busy, or away, older messages are dropped for newer ones. Parameters:
`m`, and `server`, which is HOST:PORT, or unix:PATH for one on the same machine. ROS is imported by
`main` alone; what is above it is also for nodes of your own.
"""

import threading
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

import farpoint

RETRY_S = 1.0

Message = Any
"""A `sensor_msgs.msg.PointCloud2`, of rclpy or of rosbags."""


def sampled_message(message: Message, rows: np.ndarray) -> Message:
    """A message of the same class with these points, all of their bytes as they were.

    Args:
        message: What the rows refer to.
        rows: (m,) rows of finite points.
    """
    chosen = farpoint.PackedCloud.from_ros(message).take(rows)
    return type(message)(
        header=message.header,
        height=1,
        width=len(chosen),
        fields=message.fields,
        is_bigendian=message.is_bigendian,
        point_step=message.point_step,
        row_step=chosen.row_step,
        data=array("B", chosen.data.tobytes()),  # rclpy looks at each element of anything else
        is_dense=True,
    )


class Inbox(Iterable[Message]):
    """The newest message that was put in; iterating waits for the next one, until it is closed."""

    def __init__(self) -> None:
        self._newest: Message | None = None
        self._is_closed = False
        self._changed = threading.Condition()

    def put(self, message: Message) -> None:
        """Replaces a message that was not taken."""
        with self._changed:
            self._newest = message
            self._changed.notify_all()

    def close(self) -> None:
        """Ends those who iterate, once the last message is taken."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def wait_closed(self, seconds: float) -> bool:
        """Whether it is closed, now or within so many seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: self._is_closed, seconds)

    def __iter__(self) -> Iterator[Message]:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._newest is not None or self._is_closed)
                message, self._newest = self._newest, None
            if message is None:
                return
            yield message


def sample_messages(
    client: farpoint.Client, messages: Iterable[Message], m: int, warn: Callable[[str], None]
) -> Iterator[Message]:
    """Sampled messages in the order of `messages`, without those that newer ones overtook.

    A message of fewer than m points is passed on as it is, with the next answer. One that
    cannot be sampled is left out.

    Raises:
        farpoint.FarpointError: the stream ended.
    """
    sent: deque[tuple[int, Message]] = deque()

    def taken() -> Iterator[Message]:
        for index, message in enumerate(messages):
            sent.append((index, message))
            yield message

    for answer in client.sample_stream(taken(), m, nonfinite="ignore", latest_only=True):
        index, message = sent.popleft()
        while index < answer.index:  # dropped
            index, message = sent.popleft()
        if answer.sample is not None:
            yield sampled_message(message, answer.sample.indices)
        elif message.width * message.height < m:
            yield message
        else:
            warn(f"a cloud was not sampled: {answer.error}")


def run(
    client: farpoint.Client,
    inbox: Inbox,
    m: int,
    publish: Callable[[Message], None],
    warn: Callable[[str], None],
) -> None:
    """Publishes samples of what comes into the inbox until that is closed; reconnects."""

    def stream() -> None:
        try:
            for message in sample_messages(client, inbox, m, warn):
                publish(message)
        except farpoint.FarpointError as error:
            warn(f"{client.target}: {error}")
            inbox.wait_closed(RETRY_S)

    while not inbox.wait_closed(0):
        stream()


def main() -> None:
    """The node, until it is interrupted."""
    import rclpy
    from rclpy.executors import ExternalShutdownException
    from rclpy.qos import qos_profile_sensor_data
    from sensor_msgs.msg import PointCloud2

    rclpy.init()
    node = rclpy.create_node("farpoint_sampler")
    m = node.declare_parameter("m", 4096).value
    server = node.declare_parameter("server", "127.0.0.1:50051").value
    publisher = node.create_publisher(PointCloud2, "points/sampled", 1)
    inbox = Inbox()
    node.create_subscription(PointCloud2, "points", inbox.put, qos_profile_sensor_data)
    warn = node.get_logger().warning
    with farpoint.Client(server) as client:
        worker = threading.Thread(target=run, args=(client, inbox, m, publisher.publish, warn))
        worker.start()
        try:
            rclpy.spin(node)
        except (KeyboardInterrupt, ExternalShutdownException):
            pass
        finally:
            inbox.close()
            worker.join()
            node.destroy_node()
            rclpy.try_shutdown()


if __name__ == "__main__":
    main()
