"""Which engines hang, which lanes, and when that is reported."""

import pytest
from structlog.testing import capture_logs

from farpoint_server.scheduling.watchdog import Watchdog


@pytest.fixture
def said() -> list[bool]:
    return []


def test_one_engine_in_one_lane_is_the_default(said):
    watchdog = Watchdog(1.0, report=said.append)
    assert (watchdog.late, watchdog.hung_lanes, watchdog.limit_s) == ([0], [False], 1.0)
    watchdog.count(0, 1)
    assert (watchdog.hung, watchdog.all_hung, said) == (1, True, [False])


def test_an_engine_that_is_late_twice_hangs_until_both_are_back(said):
    watchdog = Watchdog(1.0, 1, said.append)
    for late, hung in ((1, 1), (1, 1), (-1, 1), (-1, 0)):
        watchdog.count(0, late)
        assert (watchdog.hung, watchdog.all_hung) == (hung, bool(hung))
    assert said == [False, True]


def test_a_lane_hangs_with_its_last_engine_and_each_lane_has_its_own(said):
    watchdog = Watchdog(1.0, 2, said.append, lanes=3)
    assert watchdog.late == [0] * 6
    for engine in (1, 2, 5):
        watchdog.count(engine, 1)
    assert (watchdog.hung_lanes, watchdog.hung, said) == ([False] * 3, 3, [])
    watchdog.count(3, 1)
    assert (watchdog.hung_lanes, watchdog.hung, said) == ([False, True, False], 4, [False])
    watchdog.count(4, 1)
    watchdog.count(2, -1)
    assert (watchdog.hung_lanes, said) == ([False, False, True], [False])
    watchdog.count(4, -1)
    assert (watchdog.hung_lanes, said) == ([False] * 3, [False, True])


def test_what_is_logged():
    watchdog = Watchdog(1.5, 2)
    with capture_logs() as log:
        watchdog.count(1, 1)
        watchdog.count(1, -1)
    assert log == [
        {"event": "engine hung", "log_level": "error", "engine": 1, "limit_s": 1.5, "hung": 1},
        {"event": "engine recovered", "log_level": "warning", "engine": 1, "hung": 0},
    ]
