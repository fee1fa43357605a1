"""Mutation testing with cosmic-ray: small faults in packages of the server, one at a time.

    python tools/mutants.py [--package PACKAGE ...] [--sample N] [--seed N]

Each mutant of a package of server/farpoint_server meets the tests of that package alone, those of
its own module first, in a copy of the checkout in build/mutants. Numbers of module constants are
left out: most are tuned and no promise. The seed draws the sample; 0 tries all. Prints each mutant
that survives. Exit status 1 if fewer than 95 % of any sample were noticed.
"""

import argparse
import multiprocessing
import os
import random
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from cosmic_ray.commands import init
from cosmic_ray.modules import find_modules
from cosmic_ray.mutating import use_mutation
from cosmic_ray.plugins import get_operator
from cosmic_ray.work_db import use_db
from cosmic_ray.work_item import MutationSpec

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build" / "mutants"
SERVER = Path("server/farpoint_server")
SOURCES = ("ops", "server", "client/src", "training", "")
# Imported once by the fork server, and not by each process that runs tests.
PRELOADED = [
    "pytest",
    "hypothesis",
    "grpc",
    "structlog",
    "farpoint_models",
    "farpoint.v1.sampling_pb2",
]
FORKS = multiprocessing.get_context("forkserver")
# pytest cannot rewrite the assertions of modules that were imported before it.
PYTEST = ["-q", "-x", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
REQUIRED = 0.95
TIMEOUT_S = 300.0
# The nearest replacement of each operator, since the others fail at once.
OPERATORS = re.compile(
    r"core/(NumberReplacer|AddNot|ReplaceTrueWithFalse|ReplaceFalseWithTrue|ReplaceAndWithOr"
    r"|ReplaceOrWithAnd|ReplaceContinueWithBreak|ReplaceBreakWithContinue|ZeroIterationForLoop"
    r"|ExceptionReplacer|ReplaceUnaryOperator_(Delete_Not|USub_UAdd|Delete_Invert)"
    r"|ReplaceBinaryOperator_(Add_Sub|Sub_Add|Mul_FloorDiv|Mul_Add|Div_Mul|FloorDiv_Mul|Mod_Mul"
    r"|Pow_Mul|LShift_RShift|RShift_LShift|BitAnd_BitOr)"
    r"|ReplaceComparisonOperator_(Eq_NotEq|NotEq_Eq|Lt_LtE|LtE_Lt|Gt_GtE|GtE_Gt|Is_IsNot|IsNot_Is))"
)

CONSTANT = re.compile(r"[A-Z_]+(, [A-Z_]+)*(: \w+)? = ")
# cosmic-ray fails at such names of exceptions.
DOTTED = re.compile(r"\bexcept\b.*\w\.\w")


def copy_checkout() -> None:
    """Copy tracked and new files and the compiled ops to build/mutants/tree, and work there."""
    tree = BUILD / "tree"
    shutil.rmtree(tree, ignore_errors=True)
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.check_output(listed, cwd=ROOT, text=True).splitlines()
    compiled = [str(path.relative_to(ROOT)) for path in ROOT.glob("ops/farpoint_ops/lib/*.so")]
    for name in [*names, *compiled]:
        if (ROOT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tree / name)
    os.chdir(tree)
    sources = [str(tree / source) for source in SOURCES]
    os.environ["PYTHONPATH"] = os.pathsep.join(sources)
    sys.path[:0] = sources
    # A file may change twice within the second that tells its bytecode from a newer one.
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"


def mutants_of(package: str) -> list[MutationSpec]:
    """Every mutant of a package, in an order that depends on the source alone."""
    session = BUILD / f"{package.replace('/', '_')}.sqlite"
    session.unlink(missing_ok=True)
    with use_db(session) as database:
        init(sorted(find_modules([SERVER / package])), database, {})
        mutants = [item.mutations[0] for item in database.work_items]
    mutants = [mutant for mutant in mutants if _is_fault(mutant)]
    return sorted(mutants, key=lambda m: (str(m.module_path), m.operator_name, m.occurrence))


def _is_fault(mutant: MutationSpec) -> bool:
    lines = mutant.module_path.read_text().splitlines()
    line = lines[mutant.start_pos[0] - 1]
    if mutant.operator_name == "core/NumberReplacer" and CONSTANT.match(line):
        return False
    if mutant.operator_name == "core/ExceptionReplacer" and DOTTED.search(line):
        return False
    return OPERATORS.fullmatch(mutant.operator_name) is not None


def run_tests(tests: Sequence[str]) -> bool:
    """Whether the tests pass, in a process of their own."""
    process = FORKS.Process(target=_run_pytest, args=(list(tests),))
    process.start()
    process.join(TIMEOUT_S)
    if process.exitcode is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.join()
    return process.exitcode == 0


def _run_pytest(tests: list[str]) -> None:
    os.setpgid(0, 0)  # processes that a test starts end with it
    with open(os.devnull, "w") as null:
        os.dup2(null.fileno(), 1)
        os.dup2(null.fileno(), 2)
    import pytest

    sys.exit(pytest.main([*PYTEST, *tests]))


def try_mutant(mutant: MutationSpec, package: str) -> tuple[bool, str]:
    """Whether a test fails with the mutant, and the line that it changes."""
    module = mutant.module_path.relative_to(SERVER)
    folder = Path("tests/server", *module.parts[:-1])
    own = sorted(map(str, folder.glob(f"test_{module.stem}*.py")))
    operator = get_operator(mutant.operator_name)(**mutant.operator_args)
    with use_mutation(mutant.module_path, operator, mutant.occurrence) as (before, after):
        passed = run_tests([*own, f"tests/server/{package}"])
    pairs = zip(before.splitlines(), after.splitlines(), strict=False)
    line, changed = next((pair for pair in pairs if pair[0] != pair[1]), ("", ""))
    return not passed, f"{module}:{mutant.start_pos[0]}: {line.strip()} -> {changed.strip()}"


def try_package(package: str, size: int, seed: int) -> bool:
    """Try a sample of a package's mutants; whether enough were noticed."""
    mutants = mutants_of(package)
    if size and size < len(mutants):
        mutants = random.Random(seed).sample(mutants, size)
    noticed = 0
    for i, mutant in enumerate(mutants, 1):
        found, change = try_mutant(mutant, package)
        noticed += found
        print(f"{i}/{len(mutants)} {'noticed ' if found else 'SURVIVED'} {change}", flush=True)
    print(f"{package}: {noticed} of {len(mutants)} noticed")
    return noticed >= REQUIRED * len(mutants)


def main() -> None:
    packages = [str(p.parent.relative_to(SERVER)) for p in sorted(SERVER.rglob("__init__.py"))][1:]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--package", nargs="+", choices=packages, default=["codec", "scheduling"])
    parser.add_argument("--sample", type=int, default=60, help="mutants of each package; 0 is all")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    BUILD.mkdir(parents=True, exist_ok=True)
    copy_checkout()
    FORKS.set_forkserver_preload(PRELOADED)
    for package in arguments.package:
        if not run_tests([f"tests/server/{package}"]):
            sys.exit(f"tests/server/{package} fails without a mutant")
    enough = [try_package(p, arguments.sample, arguments.seed) for p in arguments.package]
    sys.exit(not all(enough))


if __name__ == "__main__":
    main()
