"""Points and bytes inside, and what happens at their bounds."""

import pytest

from farpoint_server.errors import OverloadedError
from farpoint_server.scheduling.admission import Admission


def make(**bounds) -> Admission:
    return Admission(**{"max_points": 10, "max_bytes": 1000, "retry_ms": 1} | bounds)


def test_points_and_bytes_are_held_until_the_block_ends():
    admission = make()
    with admission.hold(4, 500), admission.hold(6, 500):
        assert (admission.points, admission.bytes) == (10, 1000)
    assert (admission.points, admission.bytes) == (0, 0)


@pytest.mark.parametrize(
    ("points", "size", "said"), [(4, 1, "no room for 4 more"), (1, 501, "no room for 501 more")]
)
def test_what_is_beyond_a_bound_is_refused_and_not_counted(points, size, said):
    admission = make(retry_ms=70)
    with admission.hold(7, 500):
        with pytest.raises(OverloadedError, match=said) as caught:
            admission.hold(points, size).__enter__()
        assert (admission.points, admission.bytes) == (7, 500)
    assert caught.value.retry_ms == 70


@pytest.mark.parametrize(("points", "size"), [(10, 1), (1, 1000)])
def test_a_full_server_says_so_before_a_request_is_received(points, size):
    admission = make()
    admission.check_room()
    with admission.hold(points, size), pytest.raises(OverloadedError):
        admission.check_room()
    admission.check_room()


def test_a_failed_request_gives_back_what_it_held():
    admission = make()
    with pytest.raises(ValueError, match="bad"), admission.hold(10, 10):
        raise ValueError("bad")
    assert (admission.points, admission.bytes) == (0, 0)
