"""Command-line flags (argparse), made from the fields of Settings, so that they cannot differ."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from farpoint_server import version
from farpoint_server.config.network import NetworkSettings
from farpoint_server.config.settings import Settings


def parse(arguments: Sequence[str] | None = None) -> Settings:
    """Settings of the flags, the environment and the file; exits with status 2 if one is wrong."""
    parser = _parser()
    flags = {k: v for k, v in vars(parser.parse_args(arguments)).items() if v is not None}
    path = flags.get("config")
    if path is not None and not Path(path).is_file():
        parser.error(f"--config: no file {path}")
    try:
        return Settings(**flags)
    except ValidationError as error:
        parser.error("; ".join(_sentence(dict(problem)) for problem in error.errors()))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="farpoint-server",
        description="Serves farthest point sampling over gRPC. Logs to standard error; the line "
        '"ready" has the bound address.',
        epilog="A flag wins over the environment, the environment over the file. SIGTERM or "
        "SIGINT finishes accepted requests and ends with status 0; a second one ends at once.",
    )
    parser.add_argument("--version", action="version", version=f"farpoint-server {version()}")
    memory = parser.add_argument_group("memory", "See docs/memory.md.")
    network = parser.add_argument_group(
        "security and observability", "See docs/security.md and docs/observability.md."
    )
    for name, field in Settings.model_fields.items():
        group = memory if name.startswith("memory_") else parser
        group = network if name in NetworkSettings.model_fields else group
        group.add_argument(
            "--" + name.replace("_", "-"),
            dest=name,
            metavar=_metavar(name, field),
            action="append" if get_origin(field.annotation) is tuple else "store",
            help=_help(name, field),
        )
    return parser


def _metavar(name: str, field: FieldInfo) -> str:
    if get_origin(field.annotation) is Literal:
        return "|".join(get_args(field.annotation))
    by_name = {"device": "DEVICE", "encoder": "NAME=PATH", "otlp_endpoint": "URL"}
    if name.endswith("listen"):
        return "ADDRESS"
    if Path in (field.annotation, *get_args(field.annotation)):
        return "FILE"
    is_float = float in (field.annotation, *get_args(field.annotation))
    return by_name.get(name, "SECONDS" if is_float else "N")


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
