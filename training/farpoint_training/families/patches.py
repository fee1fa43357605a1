"""Surfaces as patches: grids of points (U, V, 3) whose cells are two triangles each."""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Surface = Callable[[Array, Array], tuple[Array, Array, Array]]


def patch(surface: Surface, rows: int = 32, columns: int = 32) -> Array:
    """x, y, z of a surface over the unit square."""
    u, v = np.meshgrid(np.linspace(0, 1, rows), np.linspace(0, 1, columns), indexing="ij")
    return np.stack(np.broadcast_arrays(*surface(u, v)), -1)


def revolve(profile: Sequence[tuple[float, float]] | Array, sides: int = 32) -> Array:
    """A profile of (radius, height) turned around the z axis in so many flat sides."""
    radius, height = np.asarray(profile, float).T[:, :, None]
    turn = np.linspace(0, 2 * np.pi, sides + 1)
    x, y = radius * np.cos(turn), radius * np.sin(turn)
    return np.stack(np.broadcast_arrays(x, y, height), -1)


def tube(path: Callable[[Array], tuple[Array, Array]], rise: float, thickness: float) -> Array:
    """A tube along a path of (radius, angle), which climbs by `rise`."""

    def surface(u: Array, v: Array) -> tuple[Array, Array, Array]:
        radius, angle = path(u)
        out = radius + thickness * np.cos(2 * np.pi * v)
        up = rise * (u - 0.5) + thickness * np.sin(2 * np.pi * v)
        return out * np.cos(angle), out * np.sin(angle), up

    return patch(surface, 96, 16)


def box(center: Sequence[float], size: Sequence[float]) -> list[Array]:
    """The six faces."""
    square = patch(lambda u, v: (u - 0.5, v - 0.5, 0 * u + 0.5), 2, 2)
    faces = [np.roll(square * side, axis, axis=-1) for axis in range(3) for side in (1, -1)]
    return [np.asarray(center) + np.asarray(size) * face for face in faces]


def triangles(patches: Sequence[Array]) -> Array:
    """All triangles (T, 3, 3)."""
    found = []
    for grid in patches:
        a, b, c, d = grid[:-1, :-1], grid[1:, :-1], grid[:-1, 1:], grid[1:, 1:]
        found += [np.stack(corners, -2).reshape(-1, 3, 3) for corners in ((a, b, c), (d, c, b))]
    return np.concatenate(found)
