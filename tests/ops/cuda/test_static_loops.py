"""Static cycles of machine code, as tools/check_cuda_loops.py finds them."""

import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).parents[3] / "tools"
sys.path.insert(0, str(TOOLS))
import check_cuda_loops as loops  # noqa: E402
import sass  # noqa: E402

# A loop of three loads of shared memory that each wait for the one before: scoreboard 0.
NONE = 7


def line(text: str, stall: int, releases: int = NONE, waits: int = 0) -> str:
    control = stall << 41 | releases << 46 | NONE << 49 | waits << 52
    return f"        /*0000*/ {text} ; /* 0x0000000000000000 */\n /* 0x{control:016x} */\n"


@pytest.fixture
def listing(tmp_path: Path) -> Path:
    code = [
        ".section .text.other,\n",
        line("EXIT", 5),
        ".section .text.chain,\n",
        line("MOV R0, RZ", 1),
        ".L_x_1:\n",
        *(line("LDS R0, [R0]", 1, releases=0, waits=1) for _ in range(3)),
        line("@P0 BRA `(.L_x_1)", 5),
        line("EXIT", 5),
    ]
    path = tmp_path / "chain.sass"
    path.write_text("".join(code))
    return path


def test_a_chain_takes_the_sum_of_its_latencies(listing: Path) -> None:
    code = sass.parse(listing, "chain")
    (loop,) = code.loops()
    body = [code.instructions[n] for n in loop]
    assert [i.base for i in body] == ["LDS", "LDS", "LDS", "BRA"]
    assert sass.cycles([body]) == pytest.approx(3 * sass.LATENCY["LDS"], abs=3)


def test_two_warps_of_one_scheduler_hide_latency(listing: Path) -> None:
    code = sass.parse(listing, "chain")
    body = [code.instructions[n] for n in next(iter(code.loops()))]
    assert sass.cycles([body] * 8) < 1.1 * sass.cycles([body])


def row(name: str, cycles: int, forbidden: int = 0) -> loops.Row:
    return loops.Row(loops.Loop(name, "", "", 1), cycles, 1, 1, forbidden)


def test_what_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "page.md"
    page.write_text("| block, a | 100 | 9 | 1 | 0 |\n| tree, b, 2 warps | 100 | 9 | 1 | 0 |\n")
    monkeypatch.setattr(loops, "PAGE", page)
    assert not loops.complaints([row("block, a", 105), row("tree, b, 2 warps", 90)])
    assert loops.complaints([row("block, a", 106)]) == ["block, a grew from 100 to 106 cycles"]
    assert loops.complaints([row("block, c", 1)]) == ["block, c is not in page.md"]
    assert loops.complaints([row("block, a", 1, forbidden=1)]) == [
        "block, a holds forbidden accesses"
    ]


def test_every_loop_is_on_the_page() -> None:
    assert set(loops.recorded()) == {loop.name for loop in loops.LOOPS}
