"""docs/triton.md: its program runs, and names every call and tensor that there is."""

import pytest
from tests.support.pages import ROOT, code_blocks
from tests.support.servers.server_process import RunningServer

from farpoint_server.codec.open_inference import fps
from farpoint_server.services.open_inference import servicer

PAGE = "triton.md"
TEXT = (ROOT / "docs" / PAGE).read_text()


def test_the_program_runs(server: RunningServer) -> None:
    pytest.importorskip("tritonclient.grpc", reason="tritonclient[grpc] is not installed")
    (program,) = code_blocks(PAGE, "python")
    exec(compile(program.replace("127.0.0.1:50051", server.address), PAGE, "exec"), {})


def test_every_call_is_named() -> None:
    for name in (*(method.name for method in servicer.DESCRIPTOR.methods), *servicer.UNSUPPORTED):
        assert f"`{name}`" in TEXT


def test_every_tensor_of_fps_is_named() -> None:
    for tensor in (*fps.INPUTS, *fps.OPTIONAL):
        assert f"`{tensor}` |" in TEXT
    for tensor in fps.OUTPUTS:
        assert f"| output | `{tensor}` |" in TEXT
