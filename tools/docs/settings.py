"""Markdown tables of every setting of the server, from the pydantic fields."""

from collections.abc import Iterator
from typing import Any

from pydantic.fields import FieldInfo

from farpoint_server.config.memory import MemorySettings
from farpoint_server.config.models import ModelSettings
from farpoint_server.config.network import NetworkSettings
from farpoint_server.config.processes import ProcessSettings
from farpoint_server.config.settings import Settings

PARTS = {
    "Server": (Settings, "Addresses, devices, limits, batches, draining, log."),
    "Network": (
        NetworkSettings,
        "See [security](../security.md) and [observability](../observability.md).",
    ),
    "Memory": (MemorySettings, "See [memory](../memory.md)."),
    "Processes": (ProcessSettings, "See [processes and devices](../scaling.md)."),
    "Models": (ModelSettings, "See [the encoder](../model.md)."),
}
INTRODUCTION = """\
# Settings of the server

Made from the fields of `farpoint_server.config.settings`. The setting `max_request_points` is the
flag `--max-request-points`, the environment variable `FARPOINT_MAX_REQUEST_POINTS` and the key
`max_request_points` of the YAML file that `--config` names. A flag wins over the environment, the
environment over the file. Flags of lists may be repeated; variables separate by commas.
"""


def render_settings() -> str:
    """One page with a table for each part of `Settings`."""
    inherited = {name for base in Settings.__bases__ for name in base.model_fields}  # type: ignore[attr-defined]
    lines = [INTRODUCTION]
    for title, (part, text) in PARTS.items():
        own = {
            name: field
            for name, field in part.model_fields.items()
            if part is not Settings or name not in inherited
        }
        lines += [f"## {title}", "", text, "", *_table(own), ""]
    return "\n".join(lines)


def _table(fields: dict[str, FieldInfo]) -> Iterator[str]:
    yield from ("| setting | default | bounds | |", "|---|---|---|---|")
    for name, field in fields.items():
        text = (field.description or "").replace("|", r"\|")
        yield f"| `{name}` | {_default(field.default)} | {_bounds(field)} | {text} |"


def _default(value: Any) -> str:
    shown = ", ".join(value) if isinstance(value, tuple) else value
    return "" if shown in (None, "") else f"`{shown}`"


def _bounds(field: FieldInfo) -> str:
    signs = (("ge", "at least"), ("gt", "above"), ("le", "at most"), ("lt", "below"))
    found = [
        f"{word} {getattr(rule, sign)}"
        for rule in field.metadata
        for sign, word in signs
        if getattr(rule, sign, None) is not None
    ]
    choices = getattr(field.annotation, "__args__", ()) if not found else ()
    return ", ".join(found or [f"`{choice}`" for choice in choices if isinstance(choice, str)])
