"""Files that are read again when they change."""

import os
from types import SimpleNamespace

import pytest
import structlog

from farpoint_server.transport import reloading
from farpoint_server.transport.reloading import ReloadedFiles


def number(path):
    return lambda: int(path.read_text())


def test_the_content_is_the_same_object_until_the_file_changes(tmp_path):
    path = tmp_path / "file"
    path.write_text("1000000")
    watched = ReloadedFiles([path], number(path))
    assert watched.get() is watched.get()
    path.write_text("2000000")
    assert watched.get() == 2000000


def test_a_change_behind_a_link_counts(tmp_path):
    """Kubernetes replaces a mounted secret by moving such a link."""
    for name, text in (("one", "1"), ("two", "2")):
        (tmp_path / name).write_text(text)
    link = tmp_path / "link"
    link.symlink_to("one")
    watched = ReloadedFiles([link], number(link))
    link.unlink()
    link.symlink_to("two")
    assert watched.get() == 2


def test_a_failure_keeps_the_content_and_is_logged_once(tmp_path):
    path = tmp_path / "file"
    path.write_text("1")
    watched = ReloadedFiles([path], number(path))
    path.write_text("no number")
    with structlog.testing.capture_logs() as log:
        assert [watched.get(), watched.get()] == [1, 1]
    assert [line["log_level"] for line in log] == ["warning"]
    path.write_text("22")
    assert watched.get() == 22


def test_the_first_failure_is_raised(tmp_path):
    with pytest.raises(FileNotFoundError):
        ReloadedFiles([tmp_path / "none"], number(tmp_path / "none"))


@pytest.fixture
def clock(monkeypatch):
    now = SimpleNamespace(s=50.0)
    monkeypatch.setattr(reloading, "time", SimpleNamespace(monotonic=lambda: now.s))
    return now


def test_the_content_is_revoked_when_the_time_is_over_and_not_before(tmp_path, clock):
    path = tmp_path / "file"
    path.write_text("1")
    watched = ReloadedFiles([path], number(path), 10.0, -1)
    with structlog.testing.capture_logs() as log:
        path.write_text("no")
        assert watched.get() == 1
        clock.s += 4
        path.write_text("neither")
        assert watched.get() == 1
        clock.s += 5.999
        assert watched.get() == 1
        clock.s += 0.001
        assert [watched.get(), watched.get()] == [-1, -1]
    names = {"files": [str(path)]}
    kept, revoked = "previous contents kept", "previous contents revoked"
    assert [(line["event"], line.get("for_s")) for line in log] == [
        (f"credentials file invalid; {kept}", 10.0),
        (f"credentials file invalid; {kept}", 6.0),
        (f"credentials file invalid; {revoked}", None),
    ]
    assert all(line["files"] == names["files"] for line in log)
    with structlog.testing.capture_logs() as log:
        path.write_text("22222")
        assert watched.get() == 22222
        clock.s += 100
        assert watched.get() == 22222
    assert [(line["event"], line["log_level"]) for line in log] == [
        ("credentials files reloaded", "info")
    ]


def test_without_a_time_the_last_good_content_stays_for_ever(tmp_path, clock):
    path = tmp_path / "file"
    path.write_text("1")
    watched = ReloadedFiles([path], number(path), None, -1)
    with structlog.testing.capture_logs() as log:
        path.unlink()
        assert watched.get() == 1
        clock.s += 1e9
        assert watched.get() == 1
    assert [(line["log_level"], "for_s" in line) for line in log] == [("warning", False)]


@pytest.mark.parametrize("change", ["inode", "size", "time", "second"])
def test_what_tells_that_a_file_has_changed(tmp_path, change):
    one, two = tmp_path / "one", tmp_path / "two"
    for path in (one, two):
        path.write_text("1")
        os.utime(path, ns=(10**18, 10**18))
    loads = []
    watched = ReloadedFiles([one, two], lambda: loads.append(1) or len(loads))
    assert [watched.get(), watched.get()] == [1, 1]
    if change == "inode":
        other = tmp_path / "other"
        other.write_text("1")
        other.replace(one)
    elif change == "size":
        one.write_text("11")
    changed = two if change == "second" else one
    moved = change in ("time", "second")
    os.utime(changed, ns=(10**18, 10**18 + moved))
    assert [watched.get(), watched.get()] == [2, 2]
