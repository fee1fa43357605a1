"""The ROS 2 example without ROS: with messages of a recording, and a server that goes away."""

import importlib.util
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from queue import Queue
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.support.robots import recorded_messages
from tests.support.servers.server_process import RunningServer

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


def numbered(message: Any, number: int) -> Any:
    header = replace(message.header, frame_id=str(number))
    return replace(message, header=header)


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


def test_messages_are_sampled_in_their_order(example, client):
    first, second = recorded_messages()
    messages = [numbered(message, i) for i, message in enumerate([first, second] * 5)]
    sampled = list(example.sample_messages(client, messages, M, no_warning))
    numbers = [int(message.header.frame_id) for message in sampled]
    assert numbers == sorted(set(numbers))
    assert numbers[-1] == 9
    for message in sampled:
        check_sampled(message, messages[int(message.header.frame_id)], client)


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
    assert "NaN" in warnings[0] or "finite points of cloud 0" in warnings[0]


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
                feed_until(inbox, message, lambda: not published.empty())
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


def feed_until(inbox: Any, message: Any, is_done: Callable[[], bool]) -> None:
    """A sensor: what was sent to a server that went away is lost."""
    give_up = time.monotonic() + 60
    while not is_done():
        assert time.monotonic() < give_up
        inbox.put(message)
        time.sleep(0.05)


class FakeRos:
    """The part of rclpy that the node uses; `spin` plays messages and ends as an interrupt."""

    def __init__(self, messages: list[Any], parameters: dict[str, Any]) -> None:
        self.messages, self.parameters = messages, parameters
        self.published: Queue[Any] = Queue()
        self.topics: list[str] = []
        self.is_shut_down = False

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        modules = {
            "rclpy": SimpleNamespace(
                init=lambda: None,
                create_node=lambda _: self,
                spin=self.spin,
                try_shutdown=lambda: setattr(self, "is_shut_down", True),
            ),
            "rclpy.executors": SimpleNamespace(ExternalShutdownException=EOFError),
            "rclpy.qos": SimpleNamespace(qos_profile_sensor_data="sensor data"),
            "sensor_msgs": SimpleNamespace(),
            "sensor_msgs.msg": SimpleNamespace(PointCloud2=type(self.messages[0])),
        }
        for name, module in modules.items():
            monkeypatch.setitem(sys.modules, name, module)

    def declare_parameter(self, name: str, default: Any) -> SimpleNamespace:
        return SimpleNamespace(value=self.parameters.get(name, default))

    def create_publisher(self, _: type, topic: str, __: int) -> SimpleNamespace:
        self.topics.append(topic)
        return SimpleNamespace(publish=self.published.put)

    def create_subscription(self, _: type, topic: str, receive: Any, __: str) -> None:
        self.topics.append(topic)
        self.receive = receive

    def get_logger(self) -> SimpleNamespace:
        return SimpleNamespace(warning=no_warning)

    def spin(self, _: "FakeRos") -> None:
        for message in self.messages:
            self.receive(message)
            self.sampled = self.published.get(timeout=60)
        raise KeyboardInterrupt

    def destroy_node(self) -> None:
        pass


def test_the_node(example, server, client, monkeypatch):
    ros = FakeRos(recorded_messages(), {"server": server.address, "m": M})
    ros.install(monkeypatch)
    example.main()
    assert ros.topics == ["points/sampled", "points"]
    assert ros.is_shut_down
    assert ros.published.empty()
    check_sampled(ros.sampled, recorded_messages()[1], client)
