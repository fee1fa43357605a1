"""Files that are read again when they change."""

import pytest
import structlog

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
