"""Static timing of one loop of NVIDIA machine code (SASS), from the text of `nvdisasm -c -hex`.

ptxas writes into every instruction how many cycles its warp stalls and which scoreboards it waits
for or releases. A simulation of the four schedulers of a processor by these gives the cycles of an
iteration, with latencies that are assumed: compare variants of a kernel, do not quote times.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

# Cycles from the issue of an instruction to the release of its scoreboard, and a block barrier's
# from the last arrival on. Published measurements of sm_90 give or take a third.
LATENCY = {
    **{"LDS": 33, "STS": 20, "LDG": 40, "STG": 12, "LD": 40, "ST": 12, "LDC": 40, "ATOMS": 70},
    **{
        "REDUX": 20,
        "SHFL": 26,
        "VOTE": 8,
        "FLO": 18,
        "BREV": 14,
        "POPC": 14,
        "MUFU": 24,
        "S2R": 28,
    },
}
OTHER_LATENCY, BARRIER_LATENCY, READ_LATENCY = 20, 22, 12
# Of one scheduler: an instruction every second cycle, every eighth; of the processor: every cycle.
HALF_RATE = {
    *("FMNMX", "FSETP", "FSEL", "ISETP", "SEL", "LOP3", "IADD3", "VIADD", "SHF", "LEA", "PRMT"),
    *("MOV", "PLOP3", "P2R", "R2P", "IMNMX", "VIMNMX", "VIMNMX3", "FMNMX3"),
}
EIGHTH_RATE = {"MUFU", "POPC", "FLO", "BREV", "I2F", "F2I"}
MEMORY = {"LDS", "STS", "LDG", "STG", "LD", "ST", "ATOMS", "ATOMG", "RED", "SHFL", "LDC", "S2R"}
SCHEDULERS = 4
ITERATIONS = 24

INSTRUCTION = re.compile(r"\s*/\*[0-9a-f]{4,5}\*/\s+(.*?);\s*/\* 0x[0-9a-f]{16} \*/")
CONTROL = re.compile(r"\s*/\* 0x([0-9a-f]{16}) \*/")
LABEL = re.compile(r"(\.L_\w+):\s*$")
SECTION = re.compile(r"\s*\.section\s+\.text\.(\S+?),")
TARGET = re.compile(r"\((\.L_\w+)\)")


@dataclass(frozen=True)
class Instruction:
    text: str
    opcode: str  # with modifiers
    stall: int
    releases: int  # scoreboard that its result releases, or 7
    frees: int  # scoreboard that its operands release, or 7
    waits: int  # scoreboards that it waits for, a bit each

    @property
    def base(self) -> str:
        return self.opcode.split(".")[0]

    @property
    def is_conditional(self) -> bool:
        return bool(re.match(r"@|BRA(\.\w+)* !?U?P\d", self.text))


@dataclass(frozen=True)
class Code:
    instructions: list[Instruction]
    labels: dict[str, int]

    def target(self, n: int) -> int | None:
        found = TARGET.search(self.instructions[n].text)
        return self.labels[found[1]] if found and self.instructions[n].base == "BRA" else None

    def loops(self) -> Iterable[range]:
        """From the target of each branch backwards to the branch."""
        for n in range(len(self.instructions)):
            target = self.target(n)
            if target is not None and target < n:
                yield range(target, n + 1)


def parse(listing: Path, kernel: str) -> Code:
    """The instructions of the kernel whose symbol contains `kernel`."""
    instructions: list[Instruction] = []
    labels: dict[str, int] = {}
    inside, text = False, ""
    for line in listing.read_text().splitlines():
        if section := SECTION.match(line):
            inside = kernel in section[1]
        elif inside and (label := LABEL.match(line)):
            labels[label[1]] = len(instructions)
        elif inside and (instruction := INSTRUCTION.match(line)):
            text = instruction[1].strip()
        elif inside and text and (control := CONTROL.match(line)):
            instructions.append(_decoded(text, int(control[1], 16)))
            text = ""
    if not instructions:
        raise SystemExit(f"{listing}: no kernel {kernel}")
    return Code(instructions, labels)


def _decoded(text: str, control: int) -> Instruction:
    words = text.split()
    opcode = words[1] if words[0].startswith("@") else words[0]
    fields = (control >> 41 & 15, control >> 46 & 7, control >> 49 & 7, control >> 52 & 63)
    return Instruction(text, opcode, *fields)


class _Warp:
    """Where a warp stands in its iterations, and until when its scoreboards are held."""

    def __init__(self, path: Sequence[Instruction]) -> None:
        self.path, self.position, self.iteration = path, 0, 0
        self.ready, self.at_barrier = 0, False
        self.boards = [0] * 8
        self.ends: list[int] = []

    @property
    def next(self) -> Instruction:
        return self.path[self.position]

    def can_issue(self, cycle: int) -> bool:
        held = any(self.next.waits >> b & 1 and self.boards[b] > cycle for b in range(6))
        return not (self.at_barrier or self.ready > cycle or held)

    def issue(self, cycle: int) -> None:
        instruction = self.next
        latency = LATENCY.get(instruction.base, OTHER_LATENCY)
        for board, until in ((instruction.releases, latency), (instruction.frees, READ_LATENCY)):
            self.boards[board] = max(self.boards[board], cycle + until)
        self.ready = cycle + max(1, instruction.stall)
        self.at_barrier = instruction.base == "BAR"
        self.position += 1
        if self.position == len(self.path):
            self.position, self.iteration = 0, self.iteration + 1
            self.ends.append(cycle)


def _occupy(pipes: dict[tuple[int, str], int], scheduler: int, i: Instruction, cycle: int) -> bool:
    """Take the pipe of an instruction; False where it is busy."""
    if i.base in MEMORY:
        key, cycles = (0, "memory"), 4 if "128" in i.opcode else 2 if ".64" in i.opcode else 1
    elif i.base in EIGHTH_RATE:
        key, cycles = (scheduler, "eighth"), 8
    elif i.base in HALF_RATE:
        key, cycles = (scheduler, "half"), 2
    else:
        return True
    if pipes[key] > cycle:
        return False
    pipes[key] = cycle + cycles
    return True


def cycles(paths: Sequence[Sequence[Instruction]]) -> float:
    """Cycles of an iteration of a block, each of whose warps goes its path through the loop."""
    warps = [_Warp(path) for path in paths]
    pipes: dict[tuple[int, str], int] = defaultdict(int)
    cycle = 0
    while any(w.iteration < ITERATIONS for w in warps):
        for scheduler in range(SCHEDULERS):
            own = [w for w in warps[scheduler::SCHEDULERS] if w.iteration < ITERATIONS]
            for warp in sorted(own, key=lambda w: (w.iteration, w.position)):
                if warp.can_issue(cycle) and _occupy(pipes, scheduler, warp.next, cycle):
                    warp.issue(cycle)
                    break
        if all(w.at_barrier for w in warps):
            for warp in warps:
                warp.at_barrier, warp.ready = False, cycle + BARRIER_LATENCY
        cycle += 1
    middle, last = (max(w.ends[n - 1] for w in warps) for n in (ITERATIONS // 2, ITERATIONS))
    return (last - middle) / (ITERATIONS - ITERATIONS // 2)
