"""farpoint.testing: a server of the default settings for users' own tests."""

import numpy as np
import pytest

import farpoint
from farpoint.testing import LocalServer, serve


def test_a_server_answers_and_stops_with_status_0():
    with serve("--device=cpu", "--http-listen=127.0.0.1:0") as server:
        with farpoint.Client(server.address) as client:
            assert len(client.sample(np.eye(3), 2)) == 2
        assert server.page.startswith("http://127.0.0.1:")
    assert server.process.returncode == 0
    assert server.log[-1]["event"] == "stopped"


def test_a_server_that_does_not_start_says_why():
    with pytest.raises(farpoint.UnavailableError, match=r"ended: .*--device"):
        serve("--device=abacus")
    with pytest.raises(farpoint.UnavailableError, match="No module named"):
        LocalServer(["python3", "-c", "import absent"])
