"""The ROS 2 example without ROS: with messages of a recording, and a server that goes away."""

import importlib.util
import sys
import threading
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from queue import Queue
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest
from tests.support.messages import recorded_messages
from tests.support.servers.server_process import RunningServer, wait_until

import farpoint
from farpoint import PackedCloud

M = 300
KIND = "sensor_msgs/msg/PointCloud2"


@pytest.fixture(scope="module")
def example() -> ModuleType:
    path = Path(__file__).resolve().parents[2] / "examples" / "ros2_node.py"
    spec = importlib.util.spec_from_file_location("ros2_node", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with RunningServer() as server:
        yield server


@pytest.fixture
def client(server: RunningServer) -> Iterator[farpoint.Client]:
    with farpoint.Client(server.address) as client:
        yield client


def no_warning(text: str) -> None:
    raise AssertionError(text)


def check_sampled(sampled: Any, message: Any, client: farpoint.Client) -> None:
    rows = client.sample(message, M, nonfinite="ignore").indices
    assert sampled.header == message.header
    assert sampled.fields == message.fields
    assert (sampled.width, sampled.height, sampled.row_step) == (M, 1, M * message.point_step)
    records = np.asarray(message.data).reshape(-1, message.point_step)
    assert bytes(sampled.data) == records[rows].tobytes()


def test_every_field_of_the_chosen_points_is_intact_and_what_ros_would_send(example):
    message = recorded_messages()[1]
    from rosbags.typesys import Stores, get_typestore

    rows = np.array([2047, 5, 700, 701])
    sampled = example.sampled_message(message, rows)
    cloud, chosen = PackedCloud.from_ros(message), PackedCloud.from_ros(sampled)
    assert chosen.records.dtype == cloud.records.dtype
    np.testing.assert_array_equal(chosen.records, cloud.records[rows])
    store = get_typestore(Stores.ROS2_HUMBLE)
    sent = replace(sampled, data=np.frombuffer(sampled.data, np.uint8))
    arrived = store.deserialize_cdr(store.serialize_cdr(sent, KIND), KIND)
    np.testing.assert_array_equal(PackedCloud.from_ros(arrived).records, chosen.records)
    different = {"width", "height", "row_step", "data"}
    expected, got = asdict(message), asdict(arrived)
    assert {k: got[k] for k in got.keys() - different} == {
        k: expected[k] for k in expected.keys() - different
    }


def test_a_small_message_passes_and_one_that_is_wrong_is_left_out(example, client):
    message = recorded_messages()[0]
    small = example.sampled_message(message, np.arange(M - 1))
    nan = replace(message, data=np.full_like(message.data, 0xFF))
    warnings = []

    def one_by_one() -> Iterator[Any]:
        """Each after the answer to the one before, so that none is dropped."""
        yield small  # not sent, and answered before the next
        for sent in (nan, message):
            yield sent
            answered.acquire()

    answered = threading.Semaphore(0)

    def warn(text: str) -> None:
        warnings.append(text)
        answered.release()

    sampled = []
    for answer in example.sample_messages(client, one_by_one(), M, warn):
        sampled.append(answer)
        if answer is not small:
            answered.release()
    assert sampled[0] is small
    check_sampled(sampled[1], message, client)
    assert len(sampled) == 2
    assert len(warnings) == 1
    assert "NaN" in warnings[0] or "points of cloud 0 that are finite" in warnings[0]


def test_an_inbox_keeps_the_newest_message_alone(example):
    inbox = example.Inbox()
    for i in range(5):
        inbox.put(i)
    messages = iter(inbox)
    assert next(messages) == 4
    inbox.put(5)
    inbox.close()
    assert list(messages) == [5]
    assert inbox.wait_closed(0)


def test_a_server_that_went_away_is_found_again(example, tmp_path, monkeypatch):
    monkeypatch.setattr(example, "RETRY_S", 0.05)
    message = recorded_messages()[0]
    path = f"unix:{tmp_path}/server"
    inbox, published, warnings = example.Inbox(), Queue(), Queue()
    with farpoint.Client(path) as client:
        arguments = client, inbox, M, published.put, warnings.put
        worker = threading.Thread(target=example.run, args=arguments)
        worker.start()
        try:
            for _ in range(2):
                server = RunningServer("--listen", path)
                # A sensor: what was sent to a server that went away is lost.
                wait_until(lambda: inbox.put(message) or not published.empty())
                check_sampled(published.get(), message, client)
                server.process.kill()
                server.wait()
                assert path in warnings.get(timeout=60)
                while not published.empty():
                    published.get()
        finally:
            inbox.close()
            worker.join(60)
    assert not worker.is_alive()


def test_the_node(example, server, client, monkeypatch):
    """With a stand-in for ROS whose `spin` plays the messages of a recording."""
    ros, published = MagicMock(), Queue()
    node, parameters = ros.create_node.return_value, {"server": server.address, "m": M}
    node.declare_parameter = lambda name, _: SimpleNamespace(value=parameters[name])
    node.create_publisher.return_value.publish = published.put
    node.get_logger.return_value.warning = no_warning

    def spin(_: object) -> None:
        receive = node.create_subscription.call_args.args[2]
        for message in recorded_messages():
            receive(message)
            check_sampled(published.get(timeout=60), message, client)
        raise KeyboardInterrupt

    ros.spin = spin
    ros.executors.ExternalShutdownException = EOFError
    for name in ("rclpy", "rclpy.executors", "rclpy.qos", "sensor_msgs", "sensor_msgs.msg"):
        stand_in = ros.executors if name == "rclpy.executors" else ros
        monkeypatch.setitem(sys.modules, name, stand_in)
    example.main()
    assert node.create_publisher.call_args.args[1] == "points/sampled"
    assert node.create_subscription.call_args.args[1] == "points"
    assert ros.try_shutdown.called
    assert published.empty()
