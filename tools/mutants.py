"""Mutation testing with cosmic-ray: small faults put into the server, one at a time.

    python tools/mutants.py [--room ROOM ...] [--sample N] [--seed N] [--again]

Each mutant of a room (a folder of server/farpoint_server) meets the tests of that room alone, those
of its own module first, in a copy of the checkout in build/mutants. A sample drawn by the seed is
tried, the same number for each room; `--sample 0` tries all. `--again` tries only what survived
last time. Survivors that docs/mutants.md explains are set apart. Exit status 1 if fewer than 95 %
of the others were noticed.
"""

import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from cosmic_ray.commands import init
from cosmic_ray.modules import find_modules
from cosmic_ray.mutating import mutate_and_test
from cosmic_ray.work_db import use_db
from cosmic_ray.work_item import MutationSpec

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build" / "mutants"
EXPLAINED = ROOT / "docs" / "mutants.md"
SERVER = Path("server/farpoint_server")
ROOMS = ("codec", "scheduling", "memory", "transport")
SOURCES = ("ops", "server", "client/src", "training", "")
WANTED = 0.95
TIMEOUT_S = 300.0
# Of the replacements of an operator the nearest one: the others fail at once. `|` stands in types
# here, where any other operator ends the import; a decorator that is missing does, too, or it was
# a cache.
OPERATORS = re.compile(
    r"core/(NumberReplacer|AddNot|ReplaceTrueWithFalse|ReplaceFalseWithTrue|ReplaceAndWithOr"
    r"|ReplaceOrWithAnd|ReplaceContinueWithBreak|ReplaceBreakWithContinue|ZeroIterationForLoop"
    r"|ExceptionReplacer|ReplaceUnaryOperator_(Delete_Not|USub_UAdd|Delete_Invert)"
    r"|ReplaceBinaryOperator_(Add_Sub|Sub_Add|Mul_FloorDiv|Mul_Add|Div_Mul|FloorDiv_Mul|Mod_Mul"
    r"|Pow_Mul|LShift_RShift|RShift_LShift|BitAnd_BitOr)"
    r"|ReplaceComparisonOperator_(Eq_NotEq|NotEq_Eq|Lt_LtE|LtE_Lt|Gt_GtE|GtE_Gt|Is_IsNot|IsNot_Is))"
)


def copy_checkout(rooms: Sequence[str]) -> None:
    """What git knows and the compiled ops, in a folder of BUILD that becomes the working one."""
    tree = BUILD / "_".join(rooms)
    shutil.rmtree(tree, ignore_errors=True)
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.check_output(listed, cwd=ROOT, text=True).splitlines()
    compiled = [str(path.relative_to(ROOT)) for path in ROOT.glob("ops/farpoint_ops/*.so")]
    for name in [*names, *compiled]:
        if (ROOT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tree / name)
    os.chdir(tree)
    os.environ["PYTHONPATH"] = os.pathsep.join(str(tree / source) for source in SOURCES)


def mutants_of(room: str) -> list[MutationSpec]:
    """All, in an order that depends on the source alone."""
    # Generated code is left out.
    modules = [m for m in find_modules([SERVER / room]) if not m.match("v2/*.py")]
    session = BUILD / f"{room}.sqlite"
    session.unlink(missing_ok=True)
    with use_db(session) as database:
        init(sorted(modules), database, {})
        mutants = [item.mutations[0] for item in database.work_items]
    mutants = [mutant for mutant in mutants if OPERATORS.fullmatch(mutant.operator_name)]
    return sorted(mutants, key=key)


def key(mutant: MutationSpec) -> tuple[str, str, int]:
    """What tells a mutant from the others."""
    return str(mutant.module_path), mutant.operator_name, mutant.occurrence


def test_command(module: Path, room: str) -> str:
    """pytest over the tests of a room, those of the module first."""
    tests = Path("tests/server", *module.relative_to(SERVER).parts[:-1])
    first = sorted(map(str, tests.glob(f"test_{module.stem}*.py")))
    own = " ".join([*first, f"tests/server/{room}"])
    return f"{sys.executable} -m pytest -q -x -p no:cacheprovider {own}"


def changed_lines(diff: str) -> tuple[str, str]:
    """The first line that a mutant took away and the first that it put there."""
    lines = [line for line in diff.splitlines() if not line.startswith(("---", "+++"))]
    gone = next((line[1:].strip() for line in lines if line.startswith("-")), "")
    come = next((line[1:].strip() for line in lines if line.startswith("+")), "")
    return gone, come


def results(mutants: Sequence[MutationSpec], room: str) -> Iterator[dict[str, object]]:
    """Tries one after the other."""
    for i, mutant in enumerate(mutants, 1):
        begun = time.monotonic()
        command = test_command(mutant.module_path, room)
        result = mutate_and_test([mutant], command, TIMEOUT_S)
        gone, come = changed_lines(result.diff or "")
        module, operator, occurrence = key(mutant)
        outcome = "noticed" if result.is_killed else "SURVIVED"
        line = f"{module.removeprefix(f'{SERVER}/')}:{mutant.start_pos[0]}"
        seconds = time.monotonic() - begun
        print(f"{i}/{len(mutants)} {outcome} {seconds:.0f} s {line}: {gone} -> {come}", flush=True)
        yield {
            "key": [module, operator, occurrence],
            "noticed": bool(result.is_killed),
            "entry": f"`{module.removeprefix(f'{SERVER}/')}`: `{gone}` -> `{come}`",
        }


def try_room(room: str, arguments: argparse.Namespace) -> bool:
    """Whether enough was noticed; prints the survivors."""
    file = BUILD / f"{room}.json"
    mutants = mutants_of(room)
    if arguments.again:
        survived = [r["key"] for r in json.loads(file.read_text()) if not r["noticed"]]
        chosen = [mutant for mutant in mutants if list(key(mutant)) in survived]
    elif arguments.sample and arguments.sample < len(mutants):
        chosen = random.Random(arguments.seed).sample(mutants, arguments.sample)
    else:
        chosen = mutants
    tried = list(results(chosen, room))
    file.write_text(json.dumps(tried, indent=1))
    text = EXPLAINED.read_text() if EXPLAINED.exists() else ""
    survivors = [str(r["entry"]) for r in tried if not r["noticed"]]
    open_ones = [entry for entry in survivors if entry not in text]
    counted = len(tried) - len(survivors) + len(open_ones)
    share = 1 - len(open_ones) / max(counted, 1)
    print(
        f"{room}: {len(tried)} of {len(mutants)} mutants, {len(tried) - len(survivors)} noticed, "
        f"{len(survivors) - len(open_ones)} explained, {len(open_ones)} open: {share:.1%}"
    )
    print("\n".join(f"  {entry}" for entry in open_ones))
    return share >= WANTED


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--room", nargs="+", choices=ROOMS, default=ROOMS)
    parser.add_argument("--sample", type=int, default=60, help="mutants of each room; 0 is all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--again", action="store_true", help="only what survived last time")
    arguments = parser.parse_args()
    BUILD.mkdir(parents=True, exist_ok=True)
    copy_checkout(arguments.room)
    for room in arguments.room:
        baseline = test_command(SERVER / room / "__init__.py", room).split()
        if subprocess.call(baseline, stdout=subprocess.DEVNULL):
            sys.exit(f"{room}: its tests fail without a mutant")
    enough = [try_room(room, arguments) for room in arguments.room]
    sys.exit(not all(enough))


if __name__ == "__main__":
    main()
