"""Code blocks of README and docs/, run as they stand against a real server."""

import re
import shutil
import subprocess
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.support.messages import recorded_messages
from tests.support.repository import ROOT, code_blocks
from tests.support.servers.server_process import RunningServer

import farpoint
from farpoint import PackedCloud

NODE_PACKAGES = ("@grpc/grpc-js", "@grpc/proto-loader")
NODE_FOLDER = ROOT / "build" / "node"


def run_python(page: str, server: RunningServer, **names: Any) -> dict[str, Any]:
    """The names after the blocks of a page have run one after the other."""
    return run_blocks(page, code_blocks(page, "python"), server, names)


def run_blocks(
    page: str, blocks: list[str], server: RunningServer, names: dict[str, Any]
) -> dict[str, Any]:
    for block in blocks:
        run = block.replace("127.0.0.1:50051", server.address)
        exec(compile(run, page, "exec"), names)
    return names


def test_readme(server: RunningServer, capsys: pytest.CaptureFixture[str]) -> None:
    run_python("../README.md", server)
    assert "(1024, 3)" in capsys.readouterr().out


def test_tutorial(
    server: RunningServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "data").symlink_to(ROOT / "tests" / "data")
    monkeypatch.chdir(tmp_path)
    run_python("tutorial.md", server)
    assert Path("street_1024.ply").stat().st_size > 1024 * 12
    printed = capsys.readouterr().out
    assert re.search(r"^\d+\.\d\d m$", printed, re.MULTILINE)
    assert "1000 rows" in printed  # the error of the cloud of NaN
    assert re.search(r"^\(\d+,\) \(\d+, \d+\)$", printed, re.MULTILINE)


def test_python_client(server: RunningServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FARPOINT_SERVER", server.address)
    monkeypatch.chdir(ROOT)
    sample = run_python("clients.md", server)["sample"]
    assert {"rgb", "normal_x"} <= sample.attributes.keys()
    assert len(sample) == 100
    assert np.isfinite(sample.points).all()


def test_readme_of_the_ops(server: RunningServer) -> None:
    names = run_python("../ops/README.md", server)
    assert names["samples"].shape == (8, 3, 1024)
    assert names["offsets"][-1] == len(names["rows"])
    assert names["indices"].shape == (8, 512)


def test_ops(server: RunningServer) -> None:
    names = run_python("ops.md", server)
    assert names["rows"].shape == (128,)
    assert names["offsets"].tolist() == names["nested"].offsets().tolist() == [0, 500, 1400]
    assert len(names["some"]) == 1024
    voxels = np.floor(names["points"] / 0.5)
    assert len(names["grid"]) == len(np.unique(voxels, axis=0))
    assert names["apart"].covering_radius <= 0.5


def test_ros_messages(server: RunningServer) -> None:
    message = recorded_messages()[0]
    names = run_python("files.md", server, message=message)
    sample, chosen = names["sample"], names["chosen"]
    records = PackedCloud.from_ros(message).records[sample.indices]
    np.testing.assert_array_equal(chosen.records, records)
    np.testing.assert_array_equal(sample.attributes["intensity"], records["intensity"])
    names["client"].close()


def test_triton_client(server: RunningServer) -> None:
    pytest.importorskip("tritonclient.grpc", reason="tritonclient[grpc] is not installed")
    run_python("models.md", server)


def test_sizing(server: RunningServer, capsys: pytest.CaptureFixture[str]) -> None:
    run_python("deployment.md", server)
    assert "p50, p99 in ms: [" in capsys.readouterr().out


def test_node_client(server: RunningServer) -> None:
    (code,) = code_blocks("clients.md", "js")
    environment = {"NODE_PATH": str(NODE_FOLDER / "node_modules"), "PATH": ""}
    program = code.replace("127.0.0.1:50051", server.address)
    rows = np.array(_printed(_node(), "-e", program, env=environment))
    assert rows[0] == 0
    assert len(np.unique(rows)) == 256
    assert 0 <= rows.min() <= rows.max() < 10_000


def test_curl(server: RunningServer) -> None:
    if missing := [name for name in ("bash", "curl", "base64", "od") if not shutil.which(name)]:
        pytest.skip(f"the optional extra {', '.join(missing)}")
    (code,) = code_blocks("clients.md", "bash")
    http = server.ready["http_address"]
    program = code.replace("127.0.0.1:8080", http)
    rows = _printed("bash", "-euo", "pipefail", "-c", program)
    with farpoint.Client(server.address) as client:
        cloud = farpoint.io.read_cloud(ROOT / "tests" / "data" / "street_kitti_part.bin")
        wanted = client.sample(cloud.points, 8)
    assert rows == wanted.indices.tolist()


def _printed(*command: str, env: dict[str, str] | None = None) -> list[int]:
    """The numbers that a program prints."""
    options = {"cwd": ROOT, "env": env, "capture_output": True, "text": True, "timeout": 60}
    done = subprocess.run(command, **options)
    assert done.returncode == 0, done.stderr
    return [int(word) for word in done.stdout.split()]


def _node() -> str:
    """Path of node, with the packages installed once in `NODE_FOLDER`; skips without them."""
    program, npm = shutil.which("node"), shutil.which("npm")
    if program is None or npm is None:
        pytest.skip("the optional extra node with npm")
    if not all((NODE_FOLDER / "node_modules" / name).is_dir() for name in NODE_PACKAGES):
        options = ["--no-audit", "--no-fund", "--fetch-retries=0", "--fetch-timeout=20000"]
        command = [npm, "install", "--prefix", str(NODE_FOLDER), *options, *NODE_PACKAGES]
        NODE_FOLDER.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(command, capture_output=True, text=True, timeout=100)
        if done.returncode:
            pytest.skip(f"the optional extra {' '.join(NODE_PACKAGES)}, not installable by npm")
    return program


PAGE = "coming_from.md"
TEXT = (ROOT / "docs" / PAGE).read_text()
SHARED, *BLOCKS = code_blocks(PAGE, "python")
SECTIONS = ("pointnet2_ops", "pointops", "torch_cluster", "pytorch3d", "Open3D")
PAIRS = list(zip(SECTIONS, BLOCKS, strict=True))


@pytest.mark.parametrize(("section", "block"), PAIRS, ids=SECTIONS)
def test_the_block_of_a_section_runs(server: RunningServer, section: str, block: str) -> None:
    assert f"\n## {section}\n" in TEXT
    torch.manual_seed(0)
    run_blocks(PAGE, [SHARED, block], server, {})


MODULES = re.findall(r"^\|[^|]+\| `([\w.]+)` \| ([^|]+) \| [^|]+ \|$", TEXT, re.MULTILINE)


@pytest.mark.parametrize(("module", "functions"), MODULES, ids=[m for m, _ in MODULES])
def test_a_module_has_the_functions_of_its_row(module: str, functions: str) -> None:
    drop_in = import_module(f"farpoint_ops.compat.{module}")
    for name in re.findall(r"`([a-zA-Z]\w+)`", functions):
        assert hasattr(drop_in, name) or hasattr(drop_in, f"{name}_wrapper"), name


def test_every_module_has_a_row() -> None:
    folder = ROOT / "ops/farpoint_ops/compat"
    public = {p.stem for p in folder.iterdir() if not p.name.startswith("_")}
    assert {module for module, _ in MODULES} == public | {"pointops.batched"}
