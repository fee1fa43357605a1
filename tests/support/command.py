"""The command `farpoint` in this process: its exit code, and what it prints."""

import io
import os
import sys
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from types import SimpleNamespace
from unittest import mock

from farpoint.cli.app import main


@dataclass(frozen=True)
class Result:
    """The result of a command."""

    exit_code: int
    stdout: str
    stderr: str

    @property
    def output(self) -> str:
        """The whole output."""
        return self.stdout + self.stderr


def run_farpoint(
    *words: object, env: Mapping[str, str | None] | None = None, stdin: bytes = b""
) -> Result:
    """Runs `farpoint`; variables of `env` that are None are not set."""
    out, errors = io.StringIO(), io.StringIO()
    variables = {**os.environ, **(env or {})}
    known = {name: value for name, value in variables.items() if value is not None}
    with (
        mock.patch.dict(os.environ, known, clear=True),
        mock.patch.object(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(stdin))),
        redirect_stdout(out),
        redirect_stderr(errors),
    ):
        try:
            code = main([str(word) for word in words])
        except SystemExit as ended:
            code = int(ended.code or 0)
    return Result(code, out.getvalue(), errors.getvalue())
