"""The families: each draws its proportions from a generator and returns its patches."""

from collections.abc import Callable

import numpy as np

from farpoint_training.families.patches import Array, box, patch, revolve, tube

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


def _cylinder(rng: np.random.Generator) -> Patches:
    h = rng.uniform(0.6, 1.5)
    return [revolve([(0, -h), (0.7, -h), (0.7, h), (0, h)])]


def _cone(rng: np.random.Generator) -> Patches:
    h = rng.uniform(0.6, 1.2)
    return [revolve([(0, -h), (0.9, -h), (0, h)])]


def _hourglass(rng: np.random.Generator) -> Patches:
    h, waist = rng.uniform(0.7, 1.2), rng.uniform(0.05, 0.2)
    return [revolve([(0, -h), (0.8, -h), (waist, 0), (0.8, h), (0, h)])]


def _prism(rng: np.random.Generator) -> Patches:
    h = rng.uniform(0.6, 1.4)
    return [revolve([(0, -h), (0.8, -h), (0.8, h), (0, h)], sides=3)]


def _pyramid(rng: np.random.Generator) -> Patches:
    h = rng.uniform(0.5, 1.0)
    return [revolve([(0, -h), (1.1, -h), (0, h)], sides=4)]


def _capsule(rng: np.random.Generator) -> Patches:
    h, r = rng.uniform(0.4, 1.0), 0.5
    caps = [_arc(-np.pi / 2, 0, r, -h), _arc(0, np.pi / 2, r, h)]
    return [revolve(np.concatenate(caps))]


def _bowl(rng: np.random.Generator) -> Patches:
    return [revolve(_arc(-np.pi / 2, rng.uniform(-0.2, 0.2)))]


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
    "bowl": _bowl,
    "box": _box,
    "bracket": _bracket,
    "capsule": _capsule,
    "cone": _cone,
    "cylinder": _cylinder,
    "helix": _helix,
    "hourglass": _hourglass,
    "mobius": _mobius,
    "prism": _prism,
    "pyramid": _pyramid,
    "saddle": _saddle,
    "sphere": _sphere,
    "stairs": _stairs,
    "table": _table,
    "torus": _torus,
    "wave": _wave,
}
