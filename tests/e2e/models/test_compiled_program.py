"""A program that AOTInductor compiled to machine code, served like any other."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.support.programs import Segmenter, segmenter_manifest
from tests.support.servers.server_process import RunningServer

import farpoint
from farpoint_models.programs import ProgramError, load_program
from farpoint_models.programs.export import export_program

pytestmark = [
    pytest.mark.skipif(
        "FARPOINT_TEST_AOTI" not in os.environ,
        reason="compiles C++ for up to a minute; FARPOINT_TEST_AOTI=1 runs it",
    ),
    pytest.mark.timeout(500),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # inside torch
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("compiled") / "segmenter.pt2"
    export_program(Segmenter(), segmenter_manifest(), path, compiled=True)
    return path


def test_a_compiled_program_answers_as_its_module(package):
    random = np.random.default_rng(2)
    clouds = [random.random((n, 3), np.float32) for n in (40, 8, 40)]
    colors = [random.random((len(cloud), 2), np.float32) for cloud in clouds]
    server = RunningServer("--encoder", "none", "--model", f"compiled={package}")
    with farpoint.Client(server.address) as client:
        inputs = [{"xyz": clouds[i], "color": colors[i], "label": i} for i in range(3)]
        answers = client.infer("compiled", inputs)
        # What the package itself would read beyond its end.
        with pytest.raises(farpoint.InvalidArgumentError, match=r"inputs\[color\].shape"):
            client.infer("compiled", {**inputs[0], "color": colors[1]})
    assert server.stop() == 0
    for i, answer in enumerate(answers):
        with torch.no_grad():
            expected = Segmenter()(
                torch.from_numpy(clouds[i])[None],
                torch.from_numpy(colors[i]).mT[None],
                torch.tensor([i]),
            )
        rows = {**expected, "scores": expected["scores"].mT}
        for name, tensor in rows.items():
            np.testing.assert_allclose(answer[name], tensor[0].numpy(), rtol=1e-5, atol=1e-5)


def test_a_package_for_another_device_is_refused(package):
    with pytest.raises(ProgramError, match="compiled for cpu, got the device cuda:0"):
        load_program(package).on(torch.device("cuda:0"))
