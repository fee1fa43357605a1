"""Pictures: every cloud fills its frame, in its own colors where it has them."""

import numpy as np
import pytest
from tests.support.clouds import cloud_file

from farpoint.io import read_cloud
from farpoint.io.records import colors_of
from farpoint.picture.view import frame_cloud

Image = pytest.importorskip("PIL.Image")
pytest.importorskip("matplotlib")

CLOUDS = [
    "room_half_duplicates_part.pcd",
    "autzen_trim_part.laz",
    "office_kinect_part.pcd",
    "street_kitti_part.bin",
    "spot_cow_part.obj",
    "lamppost.pcd",
]
ASPECT = 1.4


@pytest.mark.parametrize("name", CLOUDS)
def test_a_cloud_fills_its_frame(name):
    points = read_cloud(cloud_file(name)).points
    points = points[np.isfinite(points).all(axis=1)]
    view = frame_cloud(points, ASPECT)
    left, right, bottom, top = view.frame
    seen = view.project(points)
    inside = (seen[:, 0] > left) & (seen[:, 0] < right) & (seen[:, 1] > bottom) & (seen[:, 1] < top)
    assert (right - left) / (top - bottom) == pytest.approx(ASPECT)
    # Scans have a long tail, of which the frame leaves out.
    least = {"street_": 0.85, "room_ha": 0.95}.get(name[:7], 0.98)
    assert inside.mean() > least
    spread = np.ptp(np.percentile(seen[inside][:, :2], [1, 99], axis=0), axis=0)
    assert (spread / (right - left, top - bottom)).max() > 0.8


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e6])
def test_the_view_does_not_depend_on_size_or_place(scale):
    points = np.random.default_rng(0).random((5000, 3))
    view = frame_cloud(points - 0.5, ASPECT)
    moved = frame_cloud((points - 0.5) * scale + [-3e6 * scale, 4e6 * scale, -9 * scale], ASPECT)
    assert moved.frame == pytest.approx(view.frame, abs=1e-4)


def test_one_point_has_a_view():
    view = frame_cloud(np.zeros((1, 3)), ASPECT)
    assert np.isfinite(view.frame).all()
    assert view.frame[0] < view.frame[1]


@pytest.mark.parametrize(
    ("name", "colored"),
    [
        ("autzen_trim_part.laz", True),
        ("plane_strip_rgb_normals.pcd", True),
        ("milk.pcd", False),
        ("plane_state_plane_feet.laz", False),
    ],
)
def test_colors(name, colored):
    cloud = read_cloud(cloud_file(name))
    colors = colors_of(cloud.attributes)
    assert (colors is not None) == colored
    if colored:
        assert colors.shape == (len(cloud), 3)
        assert colors.max() > 128


def test_a_picture_with_an_output_or_alone(sample, tmp_path):
    source, picture = cloud_file("lamppost.pcd"), tmp_path / "a.png"
    result = sample(source, "-m", 50, "-o", tmp_path / "a.ply", "--picture", picture)
    assert result.exit_code == 0, result.output
    with Image.open(picture) as image:
        assert image.size == (1600, 640)
        assert image.convert("RGB").getpixel((0, 0)) == (11, 14, 20)
    result = sample(source, "-m", 50, "--picture", tmp_path / "b.png")
    assert result.exit_code == 0, result.output
    assert "b.png: 50 of 1771 points" in result.stdout
    names = [source, cloud_file("simple.las")]
    assert sample(*names, "-m", 5, "--picture", tmp_path / "all").exit_code == 0
    assert sorted(p.name for p in (tmp_path / "all").iterdir()) == ["lamppost.png", "simple.png"]
    assert "must end in .png" in sample(source, "-m", 5, "--picture", tmp_path / "a.jpg").stderr
    assert "say where to" in sample(source, "-m", 5).stderr
