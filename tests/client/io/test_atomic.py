"""A file appears whole or not at all."""

import numpy as np
import pytest

import farpoint
from farpoint.io import write_subset
from farpoint.io.cloud import Cloud
from farpoint.io.files import replacing

CLOUD = Cloud(np.zeros((2, 3)), {"label": np.array(["a", "b"])})


@pytest.mark.parametrize("suffix", [".ply", ".pcd", ".las"])
def test_a_failed_write_leaves_what_was_there(tmp_path, suffix):
    path = tmp_path / f"a{suffix}"
    path.write_text("before")
    with pytest.raises(farpoint.CloudFileError, match="'label'"):
        write_subset(path, CLOUD, np.arange(2))
    assert path.read_text() == "before"
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_permissions_are_kept_and_parts_are_not_seen(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("before")
    path.chmod(0o640)
    with replacing(path) as part:
        part.write_text("after")
        assert path.read_text() == "before"
        assert part.suffix == ".csv"
    assert path.read_text() == "after"
    assert path.stat().st_mode & 0o777 == 0o640


def test_an_interrupt_leaves_nothing(tmp_path):
    def interrupted():
        with replacing(tmp_path / "a.csv") as part:
            part.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert list(tmp_path.iterdir()) == []


def test_a_panic_of_a_library_is_caught_and_an_interrupt_is_not(tmp_path, monkeypatch):
    class PanicError(BaseException):
        pass

    class Source:
        error: BaseException = PanicError("attempt to subtract with overflow")

        def save(self, path, rows):  # noqa: ARG002
            raise self.error

    Source.__module__ = "farpoint.io.formats.text"
    cloud = Cloud(np.zeros((1, 3)), {}, Source())
    with pytest.raises(farpoint.CloudFileError, match=r"a.csv: damaged: attempt .*PanicError"):
        write_subset(tmp_path / "a.csv", cloud, np.arange(1))
    monkeypatch.setattr(Source, "error", KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        write_subset(tmp_path / "a.csv", cloud, np.arange(1))
