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
import multiprocessing
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from cosmic_ray.commands import init
from cosmic_ray.modules import find_modules
from cosmic_ray.mutating import use_mutation
from cosmic_ray.plugins import get_operator
from cosmic_ray.work_db import use_db
from cosmic_ray.work_item import MutationSpec

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build" / "mutants"
EXPLAINED = ROOT / "docs" / "mutants.md"
SERVER = Path("server/farpoint_server")
ROOMS = ("codec", "scheduling", "memory", "transport")
SOURCES = ("ops", "server", "client/src", "training", "")
# Loaded once, and not by each process that runs tests.
PRELOADED = (
    "pytest",
    "hypothesis",
    "grpc",
    "structlog",
    "farpoint_models",
    "farpoint.v1.sampling_pb2",
)
FORKS = multiprocessing.get_context("forkserver")
# pytest cannot rewrite the assertions of what is loaded before it.
IGNORED = ("-W", "ignore::pytest.PytestAssertRewriteWarning")
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
    sources = [str(tree / source) for source in SOURCES]
    os.environ["PYTHONPATH"] = os.pathsep.join(sources)
    sys.path[:0] = sources  # which multiprocessing hands on
    # A file may change twice within the second that bytecode is told apart by.
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"


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


def tests_of(module: Path, room: str) -> list[str]:
    """The tests of a room, those of the module first."""
    folder = Path("tests/server", *module.relative_to(SERVER).parts[:-1])
    return [*sorted(map(str, folder.glob(f"test_{module.stem}*.py"))), f"tests/server/{room}"]


def run_tests(tests: Sequence[str]) -> bool:
    """Whether they pass, in a process that has what is not mutated loaded already."""
    process = FORKS.Process(target=_run_pytest, args=(list(tests),))
    process.start()
    process.join(TIMEOUT_S)
    if process.exitcode is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.join()
    return process.exitcode == 0


def _run_pytest(tests: list[str]) -> None:
    # A group of its own, so that what a test has started ends with it.
    os.setpgid(0, 0)
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
    import pytest

    sys.exit(pytest.main(["-q", "-x", "-p", "no:cacheprovider", *IGNORED, *tests]))


def try_mutant(mutant: MutationSpec, room: str) -> tuple[bool, str, str]:
    """Whether it was noticed, and the line before and after."""
    operator = get_operator(mutant.operator_name)(**mutant.operator_args)
    with use_mutation(mutant.module_path, operator, mutant.occurrence) as (before, after):
        passed = run_tests(tests_of(mutant.module_path, room))
    pairs = zip(before.splitlines(), after.splitlines(), strict=False)
    line, changed = next((pair for pair in pairs if pair[0] != pair[1]), ("", ""))
    return not passed, line.strip(), changed.strip()


def results(mutants: Sequence[MutationSpec], room: str) -> Iterator[dict[str, object]]:
    """Tries one after the other."""
    for i, mutant in enumerate(mutants, 1):
        begun = time.monotonic()
        noticed, before, after = try_mutant(mutant, room)
        module = str(mutant.module_path.relative_to(SERVER))
        entry = f"`{module}`: `{before}` -> `{after}`"
        outcome = f"{'noticed' if noticed else 'SURVIVED'} {time.monotonic() - begun:.0f} s"
        print(f"{i}/{len(mutants)} {outcome} line {mutant.start_pos[0]} {entry}", flush=True)
        yield {"key": key(mutant), "noticed": noticed, "entry": entry}


def try_room(room: str, arguments: argparse.Namespace) -> bool:
    """Tries a sample of the mutants of a room; whether enough were noticed."""
    file = BUILD / f"{room}.json"
    mutants = mutants_of(room)
    known = json.loads(file.read_text()) if arguments.again else []
    survived = [result["key"] for result in known if not result["noticed"]]
    if arguments.again:
        chosen = [mutant for mutant in mutants if list(key(mutant)) in survived]
    elif arguments.sample and arguments.sample < len(mutants):
        chosen = random.Random(arguments.seed).sample(mutants, arguments.sample)
    else:
        chosen = mutants
    tried = [result for result in known if result["noticed"]]
    for result in results(chosen, room):
        tried.append(result)
        # Also of a run that is cut short.
        file.write_text(json.dumps(tried, indent=1))
    return report(room, tried, len(mutants))


def report(room: str, tried: Sequence[dict[str, object]], total: int) -> bool:
    """Prints the score of a room and what survived unexplained; whether enough was noticed."""
    text = EXPLAINED.read_text() if EXPLAINED.exists() else ""
    survivors = [str(r["entry"]) for r in tried if not r["noticed"]]
    open_ones = [entry for entry in survivors if entry not in text]
    counted = len(tried) - len(survivors) + len(open_ones)
    share = 1 - len(open_ones) / max(counted, 1)
    print(
        f"{room}: {len(tried)} of {total} mutants, {len(tried) - len(survivors)} noticed, "
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
    FORKS.set_forkserver_preload(list(PRELOADED))
    for room in arguments.room:
        if not run_tests([f"tests/server/{room}"]):
            sys.exit(f"{room}: its tests fail without a mutant")
    enough = [try_room(room, arguments) for room in arguments.room]
    sys.exit(not all(enough))


if __name__ == "__main__":
    main()
