"""The camera of a picture, and the part of the image plane that the cloud fills."""

from dataclasses import dataclass

import numpy as np

from farpoint._types import Array

# From behind a shoulder, as street and terrain are looked at; z is up.
AZIMUTH, ELEVATION = np.radians([-154.0, 36.0])
# The eye stands this many radii of the cloud away from its middle.
DISTANCE = 2.4
# A scan of a street has few points very far out. Where 2 % are farther from the middle than so many
# median distances, the frame holds 95 %, or what is within so many median distances.
TAIL, CORE = 3.0, 2.8
MARGIN = 1.06


@dataclass(frozen=True)
class View:
    """A pinhole camera and its frame.

    Attributes:
        eye: (3,).
        axes: (3, 3), rows right, up and forward.
        frame: left, right, bottom and top on the image plane at depth 1.
    """

    eye: Array
    axes: Array
    frame: tuple[float, float, float, float]

    def project(self, points: Array) -> Array:
        """(N, 3): right and up on the image plane, and depth; NaN behind the eye."""
        seen = (points - self.eye) @ self.axes.T
        depth = np.where(seen[:, 2] > 0, seen[:, 2], np.nan)
        return np.column_stack([seen[:, :2] / depth[:, None], depth])


def frame_cloud(points: Array, aspect: float) -> View:
    """A view that a cloud of any size and place fills."""
    points = np.asarray(points, np.float64)
    axes, eye, core = _camera(points) if _is_camera_frame(points) else _outside(points)
    seen = View(eye, axes, (0, 0, 0, 0)).project(core)
    low, high = np.nanpercentile(seen[:, :2], [0.5, 99.5], axis=0)
    middle, half = (low + high) / 2, np.maximum((high - low) / 2, 1e-9) * MARGIN
    width = max(half[0], half[1] * aspect)
    height = width / aspect
    left, bottom = middle[0] - width, middle[1] - height
    return View(eye, axes, (left, left + 2 * width, bottom, bottom + 2 * height))


def _outside(points: Array) -> tuple[Array, Array, Array]:
    """Axes, eye and the points to frame, for coordinates with z up."""
    core = _core(points)
    low, high = np.percentile(core, [0.5, 99.5], axis=0)
    center, radius = (low + high) / 2, max(float(np.linalg.norm(high - low)) / 2, 1e-9)
    ca, sa, ce, se = np.cos(AZIMUTH), np.sin(AZIMUTH), np.cos(ELEVATION), np.sin(ELEVATION)
    toward = np.array([ca * ce, sa * ce, se])
    axes = np.array([[-sa, ca, 0], [-ca * se, -sa * se, ce], -toward])
    return axes, center + toward * radius * DISTANCE, core


def _core(points: Array) -> Array:
    distance = np.linalg.norm(points - np.median(points, axis=0), axis=1)
    half, many, most = np.percentile(distance, [50, 95, 98])
    return points if most <= TAIL * half else points[distance <= min(many, CORE * half)]


def _is_camera_frame(points: Array) -> bool:
    """Whether the points lie within the view of a depth camera at the origin, z ahead, y down."""
    if np.percentile(points[:, 2], 0.5) <= 0:
        return False
    ahead = points[points[:, 2] > 0]
    spread = np.abs(ahead[:, :2] / ahead[:, 2:])
    # Coordinates of a map are far from the origin in x and y, a model on the ground lies around it.
    inside = (spread < (0.9, 0.75)).all(axis=1).mean()
    depth = np.percentile(points[:, 2], 50)
    return bool(inside > 0.98 and np.ptp(points[:, 2]) < 20 * depth and depth > 0.05)


def _camera(points: Array) -> tuple[Array, Array, Array]:
    """As the camera saw them, from a step further back."""
    axes = np.array([[1.0, 0, 0], [0, -1, 0], [0, 0, 1]])
    return axes, np.array([0, 0, -0.15 * float(np.median(points[:, 2]))]), points
