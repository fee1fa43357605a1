"""A street laid out from a seed: blocks of flats, parked cars, trees, lamps, signs and people.

The street runs along x and a lane crosses it; the sensor is the origin, above the near lane.
"""

from collections.abc import Iterator

import numpy as np

from farpoint_training.scenes.solids import CURB, Ellipsoid, Ground, Pole, Shape, box, building

ROAD = -1.85
WALK = ROAD + CURB
CURB_LINE, FRONT = 6.5, 10.5
CROSSING = (24.0, 36.0)
LENGTH = 125.0
SIDES = (-1, 1)


def street(rng: np.random.Generator) -> tuple[Ground, list[Shape]]:
    """The ground and everything that stands on it."""
    phase = rng.uniform(0, 2 * np.pi, 2)
    ground = Ground(ROAD, CURB_LINE, CROSSING, (float(phase[0]), float(phase[1])))
    solids = [*_blocks(rng), *_parked_cars(rng), *_trees(rng), *_lamps_and_signs(), *_people(rng)]
    return ground, solids


def _free(x: float, margin: float) -> bool:
    """Whether `x` is clear of the lane that crosses the street."""
    return not CROSSING[0] - margin < x < CROSSING[1] + margin


def _blocks(rng: np.random.Generator) -> Iterator[Shape]:
    """Rows of houses of different width and height, now and then a yard behind a low wall."""
    for side in SIDES:
        x = -LENGTH + rng.uniform(0, 8)
        while x < LENGTH:
            width = rng.uniform(11, 19)
            if x < CROSSING[1] and x + width > CROSSING[0]:
                if CROSSING[0] - x > 7:
                    yield _house(rng, x, CROSSING[0] - x - 2, side)
                x = CROSSING[1] + 2
                continue
            if rng.random() < 0.12:
                middle = (x + width / 2, side * FRONT)
                yield box(middle, (WALK, WALK + 1.3), (width, 0.3), reflectivity=0.35)
            else:
                yield _house(rng, x, width, side)
            x += width


def _house(rng: np.random.Generator, x: float, width: float, side: int) -> Shape:
    depth, setback = rng.uniform(9, 12), rng.choice([0.0, 0.0, 0.5, 1.2])
    middle = (x + width / 2, side * (FRONT + setback + depth / 2))
    size = (width, depth, rng.uniform(8, 17))
    return building(middle, WALK, size, width / round(width / 2.6), rng.uniform(0.2, 0.5))


def _parked_cars(rng: np.random.Generator) -> Iterator[Shape]:
    for side in SIDES:
        x = -70.0 + rng.uniform(0, 4)
        while x < 70:
            if _free(x, 6) and rng.random() < 0.72:
                place = (x, side * (CURB_LINE - 1.05) + rng.normal(0, 0.08))
                yield from _car(rng, place, rng.normal(0, 0.03))
            x += rng.uniform(5.4, 7.5)
    yield from _car(rng, (15.5, -1.8), rng.normal(0, 0.02))


def _car(rng: np.random.Generator, place: tuple[float, float], yaw: float) -> Iterator[Shape]:
    """A body, a cabin with leaning windows, and four wheels."""
    length, width = rng.uniform(3.9, 4.8), rng.uniform(1.7, 1.85)
    waist, roof = rng.uniform(0.85, 0.98), rng.uniform(1.4, 1.65)
    along = np.array([np.cos(yaw), np.sin(yaw)])
    across = np.array([-along[1], along[0]])
    paint = rng.uniform(0.1, 0.8)
    yield box(place, (ROAD + 0.25, ROAD + waist), (length, width), yaw, 0.06, paint)
    cabin = (place[0] - 0.25 * along[0], place[1] - 0.25 * along[1])
    size = (0.62 * length, width - 0.15)
    yield box(cabin, (ROAD + waist, ROAD + roof), size, yaw, 0.42, 0.12)
    for front, left in ((0.31, 0.42), (0.31, -0.42), (-0.31, 0.42), (-0.31, -0.42)):
        hub = np.array(place) + front * length * along + left * width * across
        yield box((hub[0], hub[1]), (ROAD, ROAD + 0.6), (0.6, 0.22), yaw, 0.0, 0.06)


def _trees(rng: np.random.Generator) -> Iterator[Shape]:
    """Each crown is a cloud of small balls of leaves, so that rays find their way into it."""
    for side in SIDES:
        for x in np.arange(-66, 70, 13.5) + rng.normal(0, 0.8, 11):
            if not _free(x, 3) or rng.random() < 0.25:
                continue
            y = side * (CURB_LINE + 0.9)
            trunk, spread = rng.uniform(2.2, 3.0), rng.uniform(1.3, 2.0)
            yield Pole((x, y), rng.uniform(0.1, 0.18), WALK, WALK + trunk + 1, 0.25)
            for _ in range(110):
                dx, dy, dz = rng.normal(0, 0.45, 3) * (spread, spread, 0.8 * spread)
                radius = rng.uniform(0.12, 0.32)
                position = (x + dx, y + dy, WALK + trunk + spread + dz)
                yield Ellipsoid(position, (radius, radius, radius), rng.uniform(0.35, 0.6))


def _lamps_and_signs() -> Iterator[Shape]:
    for i, x in enumerate(np.arange(-80.0, 90, 20)):
        y = SIDES[i % 2] * (CURB_LINE + 0.4)
        yield Pole((x, y), 0.09, WALK, WALK + 7.5, 0.4)
        yield box((x, y - np.sign(y) * 0.9), (WALK + 7.3, WALK + 7.5), (0.3, 2.0))
    for x, side in ((CROSSING[0] - 4, -1), (CROSSING[1] + 2, 1), (-14.0, -1), (52.0, -1)):
        y = side * (CURB_LINE + 0.5)
        yield Pole((x, y), 0.04, WALK, WALK + 2.9, 0.45)
        yield box((x - 0.06, y), (WALK + 2.2, WALK + 2.9), (0.03, 0.7), reflectivity=0.98)
    for x in np.arange(-6.0, 22, 2):
        yield Pole((x, CURB_LINE + 0.3), 0.06, WALK, WALK + 0.95, 0.5)


def _people(rng: np.random.Generator) -> Iterator[Shape]:
    for x in rng.uniform(-30, 45, 9):
        y = rng.choice(SIDES) * rng.uniform(CURB_LINE + 1.4, FRONT - 0.8)
        height = rng.uniform(1.55, 1.9)
        cloth = rng.uniform(0.15, 0.6)
        for step in (-0.12, 0.12):
            yield Pole((x + step, y), 0.075, WALK, WALK + 0.5 * height, cloth)
        yield Ellipsoid((x, y, WALK + 0.64 * height), (0.2, 0.26, 0.2 * height), cloth)
        yield Ellipsoid((x, y, WALK + height - 0.12), (0.1, 0.1, 0.13), 0.4)
