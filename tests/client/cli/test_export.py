"""`farpoint export` hands over to farpoint-server's, which has torch."""

import importlib.util
import subprocess
import sys

from tests.support.command import run_farpoint

ARGUMENTS = ["model.py:net", "net.pt2", "--input", "points:xyz=B,N,3", "--help"]


def test_all_arguments_and_the_exit_status_are_those_of_the_program(monkeypatch):
    ran = []

    def run(command: list[str]) -> subprocess.CompletedProcess[bytes]:
        ran.append(command)
        return subprocess.CompletedProcess(command, 7)

    monkeypatch.setattr(subprocess, "run", run)
    assert run_farpoint("export", *ARGUMENTS).exit_code == 7
    assert ran == [[sys.executable, "-m", "farpoint_models.programs", *ARGUMENTS]]


def test_without_the_server_a_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    ended = run_farpoint("export", *ARGUMENTS)
    assert ended.exit_code == 2
    assert "pip install farpoint-server" in ended.output
