"""Registered POSIX shared memory: which objects, whose, and never beyond their bounds."""

import os

import pytest

from farpoint_server.codec.open_inference import posix_memory
from farpoint_server.codec.open_inference.posix_memory import PosixMemory
from farpoint_server.errors import (
    InvalidRequestError,
    NotFoundError,
    OverloadedError,
    UnsupportedError,
)

DATA = bytes(range(100))


@pytest.fixture
def memory(tmp_path):
    (tmp_path / "test_a").write_bytes(DATA)
    return PosixMemory("test_", max_read_bytes=64, folder=tmp_path)


def register(memory, name="r", key="/test_a", offset=10, size=80, owner=""):
    memory.register(owner, name, key, offset, size)


def test_a_range_is_read_and_written_where_it_lies(memory, tmp_path):
    register(memory)
    place = memory.find("", "r", 5, 20, "inputs[x]")
    assert memory.read(place) == DATA[15:35]
    memory.write(place, b"new")
    assert (tmp_path / "test_a").read_bytes() == DATA[:15] + b"new" + DATA[18:]


def test_a_range_may_be_empty_or_reach_the_end(memory):
    register(memory)
    assert memory.read(memory.find("", "r", 80, 0, "inputs[x]")) == b""
    assert memory.read(memory.find("", "r", 20, 60, "inputs[x]")) == DATA[30:90]


@pytest.mark.parametrize(
    ("offset", "size", "parameter"),
    [
        (61, 20, "offset"),
        (-1, 20, "offset"),
        (2**63 - 1, 20, "offset"),
        (81, 0, "offset"),
        (0, 65, "byte_size"),
        (0, -1, "byte_size"),
        (0, 2**63 - 1, "byte_size"),
    ],
)
def test_a_range_beyond_its_region_is_refused(memory, offset, size, parameter):
    register(memory)
    with pytest.raises(InvalidRequestError) as caught:
        memory.find("", "r", offset, size, "inputs[x]")
    assert caught.value.field == f"inputs[x].parameters[shared_memory_{parameter}]"


@pytest.mark.parametrize("key", ["test_a", "/test_a", "//test_a"])
def test_slashes_before_a_key_are_as_for_shm_open(memory, key):
    register(memory, key=key)
    (region,) = memory.status("", "r")
    assert (region.key, region.offset, region.size) == ("test_a", 10, 80)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"name": ""}, "name"),
        ({"name": "x" * 257}, "name"),
        ({"key": "/other"}, "key"),
        ({"key": ""}, "key"),
        ({"key": "/test_a/../../etc/passwd"}, "key"),
        ({"key": "/test_a\0"}, "key"),
        ({"key": "/test_" + "x" * 300}, "key"),
        ({"key": "/test_missing"}, "key"),
        ({"key": "/test_folder"}, "key"),
        ({"key": "/test_link"}, "key"),
        ({"key": "/test_pipe"}, "key"),
        ({"size": 0}, "byte_size"),
        ({"size": 91}, "byte_size"),
        ({"offset": 2**64 - 1}, "byte_size"),
        ({"size": 2**64 - 1}, "byte_size"),
    ],
)
def test_what_cannot_be_registered(memory, tmp_path, change, field):
    (tmp_path / "test_folder").mkdir()
    (tmp_path / "test_link").symlink_to(tmp_path / "test_a")
    os.mkfifo(tmp_path / "test_pipe")
    with pytest.raises(InvalidRequestError) as caught:
        register(memory, **change)
    assert caught.value.field == field
    assert not memory.status("", "")


def test_a_name_is_registered_once_until_it_is_forgotten(memory):
    register(memory)
    with pytest.raises(InvalidRequestError, match="one that is not registered"):
        register(memory)
    memory.unregister("", "r")
    memory.unregister("", "r")
    register(memory, "s")
    register(memory, "t")
    memory.unregister("", "")
    assert not memory.status("", "")
    with pytest.raises(NotFoundError):
        memory.status("", "r")


def test_every_owner_has_regions_of_its_own(memory):
    register(memory, owner="token:a")
    with pytest.raises(InvalidRequestError, match="a region that is registered"):
        memory.find("token:b", "r", 0, 1, "inputs[x]")
    register(memory, owner="token:b", size=5)
    memory.unregister("token:b", "")
    assert [region.size for region in memory.status("token:a", "")] == [80]


def test_regions_are_bounded_in_number(memory, monkeypatch):
    monkeypatch.setattr(posix_memory, "MAX_REGIONS", 2)
    register(memory, "a")
    register(memory, "b")
    register(memory, "c", owner="token:x")
    with pytest.raises(OverloadedError):
        register(memory, "c")


@pytest.mark.parametrize("size", [0, 20, 34])
def test_an_object_that_was_shortened_is_an_error_and_not_the_end(memory, tmp_path, size):
    """A mapping of it would end the process with SIGBUS."""
    register(memory)
    place = memory.find("", "r", 5, 20, "inputs[x]")
    os.truncate(tmp_path / "test_a", size)
    with pytest.raises(InvalidRequestError, match="shortened"):
        memory.read(place)
    with pytest.raises(InvalidRequestError, match="shortened"):
        memory.write(place, bytes(20))
    assert (tmp_path / "test_a").stat().st_size == size


def test_an_object_that_is_gone_is_an_error(memory, tmp_path):
    register(memory)
    place = memory.find("", "r", 5, 20, "inputs[x]")
    (tmp_path / "test_a").unlink()
    for use in (lambda: memory.read(place), lambda: memory.write(place, b"x")):
        with pytest.raises(InvalidRequestError, match="No such file") as caught:
            use()
        assert caught.value.field == "inputs[x]"
    assert not (tmp_path / "test_a").exists()


def test_without_a_prefix_there_is_none(tmp_path):
    (tmp_path / "test_a").write_bytes(DATA)
    memory = PosixMemory(folder=tmp_path)
    assert not memory.is_enabled
    with pytest.raises(UnsupportedError):
        register(memory)
