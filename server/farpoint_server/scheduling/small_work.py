"""Which work is done where it arrives, on the event loop, instead of on an engine's thread."""

from farpoint_server.engine.types import Clouds

# What the CPU kernel takes, to within a factor of two, as it reckons itself where it decides how
# many threads a cloud is worth: for scans, surfaces and noise, alone or a thousand clouds at once.
POINT_NS, SAMPLE_NS = 15, 200
# The way to the engine's thread and back, which is a task, a future, a queue, and two threads to
# wake that then wait for each other, takes 0.25 ms of CPU and 0.3 ms of time at one caller. On two
# cores, which callers and event loop fill, work of 0.36 ms (reckoned at 0.45) still ends in 0.8 of
# the time on the loop at one caller and at 16, and in the same time at 64.
FEW_CORES = 2
FEW_CORES_NS = 500_000
# With more cores the engine works beside the loop, so a full loop should keep only what costs it
# about as much as handing over. That limit is reckoned, not measured.
MANY_CORES_NS = 250_000


def limit_ns(cores: int) -> int:
    """What the kernel may take for work on the event loop, given the cores of this process."""
    return FEW_CORES_NS if cores <= FEW_CORES else MANY_CORES_NS


def is_small(clouds: Clouds, limit_ns: int) -> bool:
    """Whether the way to another thread would cost about as much as the work itself."""
    return POINT_NS * len(clouds.points) + SAMPLE_NS * clouds.samples <= limit_ns
