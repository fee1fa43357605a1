"""Responses that peers do not read."""

import pytest
from structlog.testing import capture_logs
from tests.support.rpc import CallContext

from farpoint_server.transport import outgoing
from farpoint_server.transport.admission import Admission
from farpoint_server.transport.outgoing import Outgoing


@pytest.fixture
def cut(monkeypatch):
    """Peers whose connections were closed."""
    closed: list[str] = []
    monkeypatch.setattr(outgoing, "close_connection", lambda peer: bool(closed.append(peer)))
    return closed


async def test_a_peer_has_the_timeout_and_the_time_that_the_size_takes(cut, clock):
    refusals: list[str] = []
    sending = Outgoing(Admission(1, 1, 1), 10, bytes_per_s=100, count_refusal=refusals.append)
    sending.begin(sending.hold(CallContext(), 500))
    sending.hold(CallContext(), 0)  # made and not given to gRPC yet: it waits for no peer
    clock.s += 14.9
    sending.sweep()
    assert (cut, refusals) == ([], [])
    clock.s += 0.2
    with capture_logs() as log:
        sending.sweep()
        sending.sweep()
    assert (cut, refusals) == (["ipv4:192.0.2.1:7"], ["send_timeout"])
    assert [(line["event"], line["bytes"]) for line in log] == [("peer reads too slowly", 500)]


async def test_a_response_that_was_sent_in_time_ends_no_connection(cut, clock):
    sending = Outgoing(Admission(1, 1, 1), 10)
    response = sending.hold(CallContext(), 1)
    sending.begin(response)
    sending.end(response)
    clock.s += 1000
    sending.sweep()
    assert cut == []
