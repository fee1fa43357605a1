"""Real files with peculiarities."""

import numpy as np
import pytest
from tests.support.clouds import cloud_file

from farpoint.io import read_cloud

# Name, points, type, attributes, lowest and highest corner to the digits given.
FILES = {
    "street_kitti_part.bin": (26_912, "f4", 1, (-143.85, -42.00, -2.94)),
    "street_organized_part.npy": (4_096, "f4", 1, (-115.60, -39.24, -2.53)),
    "street_map_part.ply": (3_100, "f4", 0, (-150.76, -42.11, -2.57)),
    "vehicle_lidar_part.ply": (4_935, "f4", 1, (-8.68, -7.21, -2.96)),
    "cad_part.ply": (1_250, "f4", 3, (-2.5, -1.25, 0)),
    "car_cloud_part.csv": (1_050, "f8", 3, (-51.59, 0.64, -6.33)),
    "office_kinect_part.pcd": (4_800, "f4", 1, (-2.62, -2.15, 1.84)),
    "room_half_duplicates_part.pcd": (2_080, "f4", 0, (0, 0, -1.25)),
    "milk.pcd": (13_704, "f4", 0, (-0.14, -0.26, 0.71)),
    "lamppost.pcd": (1_771, "f4", 0, (-11.17, -0.38, -5.45)),
    "street_crlf_part.pcd": (1_200, "f4", 0, (64.80, -21.74, -0.10)),
    "plane_strip_rgb_normals.pcd": (1_000, "f4", 5, (-0.89, -0.65, 0.88)),
    "terrain_utm_part.pcd": (4_752, "f4", 0, (512_700.91, 5_403_547.5, 295.28)),
    "autzen-utm.pcd": (1_065, "f8", 13, (493_994.87, 4_877_429.62, 123.93)),
    "autzen_trim_part.laz": (2_200, "f8", 16, (636_023.12, 848_941.72, 406.43)),
    "simple.las": (1_065, "f8", 16, (635_619.85, 848_899.70, 406.59)),
    "epsg_4326_part.las": (1_076, "f8", 12, (-94.68, 31.04, 39.50)),
    "plane_state_plane_feet.laz": (28_185, "f8", 16, (1_423_214.52, 4_189_096.63, 67.86)),
    "image_lattice_part.las": (1_200, "f8", 18, (1, 1, 44)),
    "fullwave_pf10.laz": (10_750, "f8", 26, (194_267.42, 8_249_096.01, 989.94)),
}


@pytest.mark.parametrize("name", FILES)
def test_real_file(name):
    points, dtype, attributes, lowest = FILES[name]
    cloud = read_cloud(cloud_file(name))
    assert len(cloud) == points
    assert cloud.points.dtype == dtype
    assert cloud.points.shape == (points, 3)
    assert len(cloud.attributes) == attributes
    assert all(len(values) == points for values in cloud.attributes.values())
    assert np.nanmin(cloud.points, 0) == pytest.approx(lowest, abs=0.0051)


def test_rows_without_a_return_and_duplicates_stay_in_place():
    cloud = read_cloud(cloud_file("office_kinect_part.pcd"))
    assert (~np.isfinite(cloud.points).all(1)).sum() == 798
    cloud = read_cloud(cloud_file("room_half_duplicates_part.pcd"))
    assert len(cloud) - len(np.unique(cloud.points, axis=0)) == 1_174


def test_scaled_integers_keep_what_float32_would_lose():
    points = read_cloud(cloud_file("plane_state_plane_feet.laz")).points
    assert len(np.unique(points, axis=0)) == 18_335
    assert len(np.unique(points.astype(np.float32), axis=0)) == 437


def test_packed_colors_are_three_bytes():
    rgb = read_cloud(cloud_file("plane_strip_rgb_normals.pcd")).attributes["rgb"]
    assert rgb.dtype == np.uint8
    assert rgb.shape[1] == 3
    assert len(np.unique(rgb)) > 50


def test_names_in_the_head_of_a_csv_with_loose_commas():
    cloud = read_cloud(cloud_file("car_cloud_part.csv"))
    assert list(cloud.attributes) == ["nx", "ny", "nz"]
    assert cloud.points[0].tolist() == [-3.5376, 0.639553, -1.37678]


def test_colors_of_a_las_file():
    cloud = read_cloud(cloud_file("autzen_trim_part.laz"))
    assert cloud.attributes["red"].dtype == np.uint16
    assert {"intensity", "classification", "gps_time"} <= set(cloud.attributes)
