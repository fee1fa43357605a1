"""Names of the objects that csrc/cuda is built into, as tools/check_cuda.py checks them."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

TOOL = Path(__file__).parents[3] / "tools" / "check_cuda.py"


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The tool, over an empty csrc/cuda."""
    spec = importlib.util.spec_from_file_location("check_kernels", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "SOURCES", tmp_path)
    monkeypatch.setattr(module, "BUILD", tmp_path / "build")
    return module


def add(root: Path, *names: str) -> list[Path]:
    paths = [root / name for name in names]
    for path in paths:
        path.parent.mkdir(exist_ok=True)
        path.touch()
    return paths


def test_a_kernel_next_to_its_op_has_a_name_of_its_own(tool: ModuleType, tmp_path: Path) -> None:
    add(tmp_path, "gather/op_kernel.cu", "gather/op.cpp")
    tool.check_names()
    add(tmp_path, "gather/op.cu")
    with pytest.raises(SystemExit, match=r"would build the same object: \['gather/op'\]"):
        tool.check_names()


def test_equal_names_in_two_folders_do_not_collide(tool: ModuleType, tmp_path: Path) -> None:
    sources = add(tmp_path, "fps/op_kernel.cu", "gather/op_kernel.cu", "fps/op.cu", "gather/op.cpp")
    tool.check_names()
    assert len({tool.target_of(source, "sm_90.cubin") for source in sources}) == 4
