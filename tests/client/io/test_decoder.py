"""Decoding in a child process: whatever happens to it is an error, and the next file is read."""

import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from tests.support.clouds import cloud_file

import farpoint
from farpoint.io import read_cloud
from farpoint.io.cloud import ReadOptions
from farpoint.io.decoder import Bounds, Decoder

OPTIONS = ReadOptions()


@pytest.fixture
def decoder():
    with Decoder(Bounds(memory_bytes=2 << 30)) as opened:
        yield opened


def is_well(decoder):
    opened = decoder.open(cloud_file("simple.las"), OPTIONS)
    return len(opened.points) == 1065


def test_points_rows_and_files(decoder, tmp_path):
    source = cloud_file("autzen_trim_part.laz")
    opened = decoder.open(source, OPTIONS)
    cloud = read_cloud(source)
    assert np.array_equal(opened.points, cloud.points)
    assert opened.unit == "foot"
    rows = np.array([9, 2_100, 3])
    assert np.array_equal(decoder.take(rows).attributes["red"], cloud.attributes["red"][rows])
    decoder.write(rows, [tmp_path / "a.laz", tmp_path / "a.indices.npy"])
    assert np.array_equal(read_cloud(tmp_path / "a.laz").points, cloud.points[rows])
    assert np.load(tmp_path / "a.indices.npy").tolist() == rows.tolist()


def test_an_error_of_the_file_is_the_file_s(decoder, tmp_path):
    (tmp_path / "a.ply").write_text("solid")
    with pytest.raises(farpoint.CloudFileError, match="expected a header"):
        decoder.open(tmp_path / "a.ply", OPTIONS)
    assert is_well(decoder)


def module_in(folder, monkeypatch, body):
    """Has the child import a laspy of our own making."""
    (folder / "laspy.py").write_text(body)
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])


def test_a_crash_names_the_file_and_its_signal(tmp_path, monkeypatch):
    module_in(tmp_path, monkeypatch, "import os\nos.write(2, b'boom\\n')\nos.abort()\n")
    source = cloud_file("simple.las")
    with Decoder(Bounds()) as decoder:
        with pytest.raises(farpoint.CloudFileError, match=r"simple.las: .* \(SIGABRT.*boom"):
            decoder.open(source, OPTIONS)
        (tmp_path / "laspy.py").unlink()
        assert is_well(decoder)


def test_a_decoder_that_takes_too_long_is_ended(tmp_path, monkeypatch):
    module_in(tmp_path, monkeypatch, "import time\ntime.sleep(1000)\n")
    with Decoder(Bounds(seconds=3)) as decoder:
        with pytest.raises(farpoint.CloudFileError, match="took longer than 3 s"):
            decoder.open(cloud_file("simple.las"), OPTIONS)
        (tmp_path / "laspy.py").unlink()
        assert is_well(decoder)


@pytest.mark.skipif(sys.platform != "linux", reason="needs RLIMIT_AS")
def test_memory_is_bounded(tmp_path, monkeypatch):
    module_in(tmp_path, monkeypatch, "import numpy\nnumpy.ones(1 << 32, 'u1')\n")
    with Decoder(Bounds(memory_bytes=1 << 30)) as decoder:
        with pytest.raises(farpoint.CloudFileError, match=r"simple.las: does not fit in memory"):
            decoder.open(cloud_file("simple.las"), OPTIONS)
        (tmp_path / "laspy.py").unlink()
        assert is_well(decoder)


def test_no_process_is_left(decoder):
    assert is_well(decoder)
    children = Path(f"/proc/self/task/{threading.get_native_id()}/children")
    before = children.read_text().split()
    decoder.close()
    assert len(children.read_text().split()) == len(before) - 1
    with pytest.raises(farpoint.CloudFileError, match="closed"):
        decoder.take(np.arange(1))
