"""Point clouds of procedural shapes, for training and examples; numpy only.

Eighteen families of surfaces, no two samples alike: proportions, size, heading, density and noise
are drawn anew for each. A model may train on `TRAINING` and be tried on the classes `HELD_OUT`.
"""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Surface = Callable[[Array, Array], tuple[Array, Array, Array]]
Profile = Sequence[tuple[float, float]] | Array


def patch(surface: Surface, rows: int = 32, columns: int = 32) -> Array:
    """x, y, z of a surface over the unit square."""
    u, v = np.meshgrid(np.linspace(0, 1, rows), np.linspace(0, 1, columns), indexing="ij")
    return np.stack(np.broadcast_arrays(*surface(u, v)), -1)


def revolve(profile: Profile, sides: int = 32) -> Array:
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


Patches = list[Array]
Family = Callable[[np.random.Generator], Patches]


def _arc(start: float, stop: float, radius: float = 1.0, height: float = 0.0) -> Array:
    """A profile along a circle around (0, height), by latitude in radians."""
    latitude = np.linspace(start, stop, 24)
    return np.column_stack([radius * np.cos(latitude), height + radius * np.sin(latitude)])


def _sphere(_: np.random.Generator) -> Patches:
    return [revolve(_arc(-np.pi / 2, np.pi / 2))]


def _box(rng: np.random.Generator) -> Patches:
    return box((0, 0, 0), rng.uniform(0.8, 1.8, 3).tolist())


def _turned(
    low: float, high: float, profile: Callable[[float], Profile], sides: int = 32
) -> Family:
    """A profile by one random number, turned around the z axis."""
    return lambda rng: [revolve(profile(rng.uniform(low, high)), sides)]


def _hourglass(rng: np.random.Generator) -> Patches:
    h, waist = rng.uniform(0.7, 1.2), rng.uniform(0.05, 0.2)
    return [revolve([(0, -h), (0.8, -h), (waist, 0), (0.8, h), (0, h)])]


def _capped(h: float) -> Profile:
    return np.concatenate([_arc(-np.pi / 2, 0, 0.5, -h), _arc(0, np.pi / 2, 0.5, h)])


def _torus(rng: np.random.Generator) -> Patches:
    return [tube(lambda u: (0 * u + 0.8, 2 * np.pi * u), 0.0, rng.uniform(0.15, 0.35))]


def _arch(rng: np.random.Generator) -> Patches:
    ring = tube(lambda u: (0 * u + 0.9, np.pi * u), 0.0, rng.uniform(0.12, 0.25))
    return [ring[..., [0, 2, 1]]]


def _helix(rng: np.random.Generator) -> Patches:
    turns = rng.uniform(2, 4)
    return [tube(lambda u: (0 * u + 0.6, 2 * np.pi * turns * u), rng.uniform(1.4, 2.2), 0.1)]


def _wave(rng: np.random.Generator) -> Patches:
    waves, height = rng.uniform(1.5, 3), rng.uniform(0.15, 0.3)
    return [
        patch(lambda u, v: (2 * u - 1, 2 * v - 1, height * np.sin(2 * np.pi * waves * u)), 64, 2)
    ]


def _saddle(rng: np.random.Generator) -> Patches:
    bend = rng.uniform(0.4, 0.9)
    return [
        patch(lambda u, v: (2 * u - 1, 2 * v - 1, bend * ((2 * u - 1) ** 2 - (2 * v - 1) ** 2)))
    ]


def _mobius(rng: np.random.Generator) -> Patches:
    width = rng.uniform(0.5, 0.9)

    def surface(u: Array, v: Array) -> tuple[Array, Array, Array]:
        turn, across = 2 * np.pi * u, width * (v - 0.5)
        out = 1 + across * np.cos(turn / 2)
        return out * np.cos(turn), out * np.sin(turn), across * np.sin(turn / 2)

    return [patch(surface, 64, 8)]


def _stairs(rng: np.random.Generator) -> Patches:
    steps, width = int(rng.integers(3, 7)), rng.uniform(0.5, 1.0)
    run, rise = 2 / steps, 1.4 / steps
    corners = [(i, i) for i in range(steps)] + [(i, i + 1) for i in range(steps)]
    line = sorted([*corners, (steps, steps)])
    x, z = np.array(line, float).T
    return [
        np.stack(
            np.broadcast_arrays(
                (run * x - 1)[:, None], np.array([-width, width])[None], (rise * z - 0.7)[:, None]
            ),
            -1,
        )
    ]


def _bracket(rng: np.random.Generator) -> Patches:
    reach, thick = rng.uniform(1.2, 1.8), rng.uniform(0.25, 0.4)
    foot = box((reach / 2, 0, 0), (reach, 0.8, thick))
    return foot + box((thick / 2, 0, reach / 2), (thick, 0.8, reach))


def _table(rng: np.random.Generator) -> Patches:
    length, depth, height = rng.uniform(1.4, 2.2), rng.uniform(0.9, 1.4), rng.uniform(0.8, 1.2)
    top = box((0, 0, height), (length, depth, 0.12))
    spots = [(x * (length / 2 - 0.1), y * (depth / 2 - 0.1)) for x in (-1, 1) for y in (-1, 1)]
    legs = [box((x, y, height / 2), (0.14, 0.14, height)) for x, y in spots]
    return sum(legs, top)


FAMILIES: dict[str, Family] = {
    "arch": _arch,
    "bowl": _turned(-0.2, 0.2, lambda end: _arc(-np.pi / 2, end)),
    "box": _box,
    "bracket": _bracket,
    "capsule": _turned(0.4, 1.0, _capped),
    "cone": _turned(0.6, 1.2, lambda h: [(0, -h), (0.9, -h), (0, h)]),
    "cylinder": _turned(0.6, 1.5, lambda h: [(0, -h), (0.7, -h), (0.7, h), (0, h)]),
    "helix": _helix,
    "hourglass": _hourglass,
    "mobius": _mobius,
    "prism": _turned(0.6, 1.4, lambda h: [(0, -h), (0.8, -h), (0.8, h), (0, h)], sides=3),
    "pyramid": _turned(0.5, 1.0, lambda h: [(0, -h), (1.1, -h), (0, h)], sides=4),
    "saddle": _saddle,
    "sphere": _sphere,
    "stairs": _stairs,
    "table": _table,
    "torus": _torus,
    "wave": _wave,
}


HELD_OUT = ("bowl", "capsule", "helix", "pyramid", "saddle", "table")
TRAINING = tuple(name for name in FAMILIES if name not in HELD_OUT)
NOISE = 0.005
OVERSAMPLING = 6
HIDDEN_MAX = 0.6
SLOPE_MAX = 1.5


def sample_shape(
    name: str, points: int, rng: np.random.Generator, *, partial: bool = False
) -> npt.NDArray[np.float32]:
    """A cloud on the surface of a shape of a family.

    Args:
        name: A key of `FAMILIES`.
        points: Rows of the cloud.
        rng: Decides everything else. The shape is about 1 to 4 units large, turned around the z
            axis; its density falls by up to e ** 1.5 per unit in a random direction; noise is half
            a percent of its size.
        partial: Cut off up to 60 % of the surface by a random plane, as if seen from one side.

    Returns:
        float32 (points, 3), in random order.
    """
    corners = triangles(FAMILIES[name](rng))
    surface = _uniform(corners, OVERSAMPLING * points, rng)
    if partial:
        surface = _cut(surface, rng)
    kept = surface[_thin(surface, points, rng)] * rng.uniform(0.8, 1.25, 3)
    kept += rng.normal(0, NOISE, kept.shape)
    size = np.exp(rng.uniform(np.log(0.5), np.log(2.0)))
    cloud: npt.NDArray[np.float32] = (size * kept @ heading(rng)).astype(np.float32)
    return cloud


def _uniform(corners: Array, points: int, rng: np.random.Generator) -> Array:
    """Points spread evenly over triangles (T, 3, 3)."""
    a, b, c = corners.transpose(1, 0, 2)
    area = np.linalg.norm(np.cross(b - a, c - a), axis=-1)
    picked = rng.choice(len(area), points, p=area / area.sum())
    u, v = rng.random((2, points, 1))
    fold = u + v > 1
    u, v = np.where(fold, 1 - u, u), np.where(fold, 1 - v, v)
    spread: Array = a[picked] + u * (b - a)[picked] + v * (c - a)[picked]
    return spread


def _cut(surface: Array, rng: np.random.Generator) -> Array:
    """The part on one side of a plane."""
    along = surface @ rng.normal(size=3)
    return surface[along >= np.quantile(along, rng.uniform(0, HIDDEN_MAX))]


def _thin(surface: Array, points: int, rng: np.random.Generator) -> npt.NDArray[np.intp]:
    """Rows to keep, fewer and fewer along a random direction: weighted draws, by Gumbel noise."""
    slope = rng.normal(size=3)
    slope *= rng.uniform(0, SLOPE_MAX) / np.linalg.norm(slope)
    keys = surface @ slope + rng.gumbel(size=len(surface))
    return rng.permutation(np.argpartition(-keys, points - 1)[:points])


def heading(rng: np.random.Generator) -> Array:
    """A random rotation around the z axis."""
    yaw = rng.uniform(0, 2 * np.pi)
    c, s = np.cos(yaw), np.sin(yaw)
    return np.array([[c, s, 0], [-s, c, 0], [0, 0, 1]])
