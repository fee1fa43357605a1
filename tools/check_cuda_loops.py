"""Static cycles of the sampling loops in the sm_90 code that tools/check_cuda.py has compiled.

Prints the table of docs/performance_cuda.md and fails when a loop has grown by more than 5 % over
what stands there, or holds what it must not: local or generic accesses, reads of special registers.
"""

import re
import shutil
import subprocess
import sys
import sysconfig
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import sass

ROOT = Path(__file__).resolve().parents[1]
CUBINS = ROOT / "build" / "cuda" / "fps"
PAGE = ROOT / "docs" / "performance_cuda.md"
GROWTH = 1.05
FORBIDDEN = frozenset({"LDL", "STL", "LD", "ST", "S2R"})


@dataclass(frozen=True)
class Loop:
    name: str  # as in the table
    cubin: str
    symbol: str  # a part of the kernel's
    warps: int
    busy: int = 0  # warps that go down to a leaf, of each box of a lane; the others to none


def tree(name: str, template: str, warps: int, busy: int) -> Loop:
    return Loop(
        f"{name}, {warps} warp{'s' if warps > 1 else ''}, {busy} busy",
        "tree/tree_kernel",
        template,
        warps,
        busy,
    )


def block(threads: int, items: int) -> Loop:
    symbol = f"Li{threads}ELi{items}E"
    return Loop(f"block, {threads} x {items}", "block_kernel", symbol, threads // 32)


def parts(name: str, template: str, warps: int, busy: int) -> Loop:
    found = tree(name, template, warps, busy)
    return Loop(found.name, "tree/parts_kernel", template, warps, busy)


LOOPS = (
    *(block(32, items) for items in (8, 16, 32)),
    *(block(*size) for size in ((128, 8), (128, 16), (256, 16))),
    *(tree("tree, registers", "Li1ELb0ELi1E", w, b) for w, b in ((1, 1), (2, 2), (8, 0), (8, 4))),
    *(tree("tree, registers", "Li1ELb0ELi1E", w, b) for w, b in ((16, 0), (16, 4))),
    *(tree("tree, two boxes", "Li1ELb0ELi2E", w, b) for w, b in ((2, 2), (16, 0), (16, 4))),
    *(tree("tree, shared nodes", "Li2ELb1E", w, b) for w, b in ((2, 2), (16, 0), (16, 4))),
    *(tree("tree, global nodes", "Li2ELb0E", w, b) for w, b in ((16, 0), (16, 4))),
    *(tree("tree, three levels", "Li3ELb0E", w, b) for w, b in ((16, 0), (16, 4))),
    *(parts("part, registers", "Li1ELb0E", w, b) for w, b in ((4, 0), (4, 4), (8, 4), (16, 4))),
    *(parts("part, shared nodes", "Li2ELb1E", w, b) for w, b in ((16, 4),)),
)


def nvdisasm() -> str | None:
    """Of the CUDA toolkit, or of the PyPI package nvidia-cuda-nvdisasm."""
    packages = Path(sysconfig.get_path("purelib")) / "nvidia"
    packaged = sorted(packages.glob("*/bin/nvdisasm"))
    return shutil.which("nvdisasm") or (str(packaged[-1]) if packaged else None)


def listing(tool: str, cubin: Path) -> Path:
    target = cubin.with_suffix(".sass")
    if not target.exists() or target.stat().st_mtime < cubin.stat().st_mtime:
        command = [tool, "-c", "-hex", str(cubin)]
        target.write_text(
            subprocess.run(command, capture_output=True, text=True, check=True).stdout
        )
    return target


def sampling_loop(code: sass.Code) -> range:
    """The outermost loop with distances and warp reductions.

    Code of rare branches lies behind the end of a kernel and jumps back, which makes no loop.
    """

    def samples(loop: range) -> bool:
        body = [code.instructions[n] for n in loop]
        found = Counter(i.base for i in body)
        behind = any(i.base == "EXIT" and not i.is_conditional for i in body)
        return found["REDUX"] >= 2 and found["FFMA"] >= 2 and not behind

    return max((loop for loop in code.loops() if samples(loop)), key=len)


def path(code: sass.Code, loop: range, alone: bool, busy: bool) -> list[sass.Instruction]:
    """One iteration of a warp, alone or not: no tie, and one leaf of one node or none.

    Of a part: one that waits for no other.
    """
    taken, n = [], loop[0]
    while len(taken) < 5000:
        instruction = code.instructions[n]
        taken.append(instruction)
        target = code.target(n)
        if n == loop[-1]:
            return taken
        if target is None or ".DIV" in instruction.opcode:
            n += 1
        elif not instruction.is_conditional:
            n = target
        else:
            n = target if n < target <= loop[-1] and _skips(code, n, target, alone, busy) else n + 1
    raise SystemExit("check_cuda_loops: no end of the loop")


def _skips(code: sass.Code, n: int, target: int, alone: bool, busy: bool) -> bool:
    opcodes = {i.opcode for i in code.instructions[n + 1 : target]}
    ties = any(o.startswith("REDUX.MIN") for o in opcodes)
    leaves = any(o.startswith("FFMA") for o in opcodes)
    if any(o.startswith("LD") and "STRONG" in o for o in opcodes):
        return True
    if any(o.startswith("BAR") for o in opcodes):
        return alone
    return not busy if leaves else ties


@dataclass(frozen=True)
class Row:
    loop: Loop
    cycles: int
    instructions: int  # of all warps
    shared_loads: int
    forbidden: int

    def __str__(self) -> str:
        figures = (self.cycles, self.instructions, self.shared_loads, self.forbidden)
        return f"| {self.loop.name} | {' | '.join(map(str, figures))} |"


def measure(tool: str, loop: Loop) -> Row:
    code = sass.parse(listing(tool, CUBINS / f"{loop.cubin}.sm_90.cubin"), loop.symbol)
    body = sampling_loop(code)
    paths = [path(code, body, loop.warps == 1, w < loop.busy) for w in range(loop.warps)]
    executed = Counter(i.base for p in paths for i in p)
    held = sum(i.base in FORBIDDEN for i in paths[0])
    cycles = round(sass.cycles(paths))
    return Row(loop, cycles, executed.total(), executed["LDS"] // loop.warps, held)


def recorded() -> dict[str, int]:
    """Cycles of each loop by its name, from the page."""
    rows = re.findall(
        r"^\| ((?:block|tree|part), [^|]+) \| (\d+) \|", PAGE.read_text(), re.MULTILINE
    )
    return {name: int(cycles) for name, cycles in rows}


def complaints(rows: Sequence[Row]) -> list[str]:
    before = recorded()
    missing = [f"{r.loop.name} is not in {PAGE.name}" for r in rows if r.loop.name not in before]
    grown = [
        f"{r.loop.name} grew from {before[r.loop.name]} to {r.cycles} cycles"
        for r in rows
        if r.cycles > GROWTH * before.get(r.loop.name, r.cycles)
    ]
    return [
        *missing,
        *grown,
        *(f"{r.loop.name} holds forbidden accesses" for r in rows if r.forbidden),
    ]


def main() -> None:
    tool = nvdisasm()
    if tool is None or not (CUBINS / "block_kernel.sm_90.cubin").exists():
        print("check_cuda_loops: no nvdisasm or no compiled kernels, loops not analyzed")
        return
    rows = [measure(tool, loop) for loop in LOOPS]
    print("| loop | cycles | instructions | shared loads of a warp | forbidden |")
    print("|---|---|---|---|---|")
    print("\n".join(map(str, rows)))
    if found := complaints(rows):
        sys.exit("check_cuda_loops: " + "; ".join(found))


if __name__ == "__main__":
    main()
