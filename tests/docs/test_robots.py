"""The Python of docs/robots.md runs, with a message of a recording."""

import numpy as np
from tests.support.pages import code_blocks
from tests.support.robots import recorded_messages
from tests.support.servers.server_process import RunningServer

from farpoint import PackedCloud


def test_the_blocks_run_in_their_order(server: RunningServer) -> None:
    message = recorded_messages()[0]
    names: dict[str, object] = {"message": message}
    for block in code_blocks("robots.md", "python"):
        run = block.replace("127.0.0.1:50051", server.address)
        exec(compile(run, "robots.md", "exec"), names)
    sample, chosen = names["sample"], names["chosen"]
    records = PackedCloud.from_ros(message).records[sample.indices]
    np.testing.assert_array_equal(chosen.records, records)
    np.testing.assert_array_equal(sample.attributes["intensity"], records["intensity"])
    names["client"].close()
