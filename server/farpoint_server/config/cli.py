"""Command-line flags (argparse), generated from the fields of Settings."""

import argparse
import difflib
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NoReturn, get_args, get_origin

import yaml  # type: ignore[import-untyped]
from pydantic import ValidationError
from pydantic.fields import FieldInfo

from farpoint_server import version
from farpoint_server.config.settings import GROUPS, Settings

PREFIX = "FARPOINT_"
# The command `farpoint` reads these.
OF_CLIENT = {"SERVER", "SERVER_NAME", "TLS", "CA", "CERTIFICATE", "KEY", "TOKEN", "TOKEN_FILE"}
# Kubernetes adds these to every pod in the namespace of a service called farpoint.
OF_KUBERNETES = re.compile(r"(.*_)?(SERVICE_HOST|SERVICE_PORT.*|PORT(_\d+_.*)?)")


def parse(arguments: Sequence[str] | None = None) -> Settings:
    """Reads settings from flags, environment and file; exits with status 2 if one is invalid.

    Args:
        arguments: Of the command; those of the process if None.
    """
    parser = _parser()
    flags = {k: v for k, v in vars(parser.parse_args(arguments)).items() if v is not None}
    path = flags.get("config") or os.environ.get("FARPOINT_CONFIG")
    if path and (problem := _problem_of_file(path)):
        parser.error(f"--config (or FARPOINT_CONFIG) {path}: {problem}")
    try:
        return Settings(**flags)
    except ValidationError as error:
        parser.error("; ".join(_sentence(dict(problem)) for problem in error.errors()))


def unknown_variables(environment: Mapping[str, str]) -> list[str]:
    """Names FARPOINT_... that are not settings, each with the setting that it may mean."""
    known = {name.upper() for name in Settings.model_fields}
    found = []
    for variable in sorted(environment):
        name = variable.upper().removeprefix(PREFIX)
        if name == variable.upper() or name in known | OF_CLIENT or OF_KUBERNETES.fullmatch(name):
            continue
        close = difflib.get_close_matches(name, known, 1)
        found.append(f"{variable} (perhaps {PREFIX}{close[0]})" if close else variable)
    return found


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Prints one line, without the usage of sixty flags."""
        self.exit(2, f"{self.prog}: {' '.join(message.split())}\n")


def _problem_of_file(path: str) -> str | None:
    """Why a file is not a YAML mapping; None if it is one or is empty."""
    try:
        content = yaml.safe_load(Path(path).read_text())
    except OSError as error:
        return error.strerror or str(error)
    except (ValueError, yaml.YAMLError) as error:
        return f"not YAML: {error}"
    if content is None or isinstance(content, dict):
        return None
    return f"expected keys and values, got a {type(content).__name__}"


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="farpoint-server",
        usage="%(prog)s [--listen ADDRESS] [--device DEVICE] [--flag VALUE ...]",
        description="Serves farthest point sampling over gRPC and HTTP. Logs to standard error; "
        'the line "ready" has the bound address.',
        epilog="A flag wins over the environment, the environment over the file. SIGTERM, "
        "SIGINT or SIGHUP finishes accepted requests and ends with status 0; a second one ends at "
        "once, and with status 1 if a request was not answered.",
    )
    parser.add_argument("--version", action="version", version=f"farpoint-server {version()}")
    for settings in GROUPS:
        group = parser.add_argument_group(settings.__doc__)
        for name, field in settings.model_fields.items():
            group.add_argument(
                "--" + name.replace("_", "-"),
                dest=name,
                metavar=_metavar(field),
                action="append" if get_origin(field.annotation) is tuple else "store",
                help=_help(name, field),
            )
    return parser


def _metavar(field: FieldInfo) -> str:
    is_choice = get_origin(field.annotation) is Literal
    return "|".join(get_args(field.annotation)) if is_choice else "VALUE"


def _help(name: str, field: FieldInfo) -> str:
    default: Any = field.default
    shown = ", ".join(default) or None if isinstance(default, tuple) else default
    text = f"{field.description} [default: {shown}; env: FARPOINT_{name.upper()}]"
    return text.replace("%", "%%")


def _sentence(problem: dict[str, Any]) -> str:
    name = str(problem["loc"][0]) if problem["loc"] else ""
    message = str(problem["msg"]).removeprefix("Value error, ")
    if not name:
        return message
    shown = "" if problem["type"] == "value_error" else f", got {problem['input']!r}"
    return f"--{name.replace('_', '-')} (or FARPOINT_{name.upper()}, or {name} in the file): " + (
        message + shown
    )
