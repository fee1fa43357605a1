"""Markdown tables of every setting of the server, from the pydantic fields."""

from collections.abc import Iterator
from typing import Any

from pydantic.fields import FieldInfo

from farpoint_server.config.settings import GROUPS

INTRODUCTION = """\
# Settings of the server

Made from the fields of `farpoint_server.config.settings`. The setting `max_request_points` is the
flag `--max-request-points`, the environment variable `FARPOINT_MAX_REQUEST_POINTS` and the key
`max_request_points` of the YAML file that `--config` names. A flag wins over the environment, the
environment over the file. Flags of lists may be repeated; variables separate by commas.
"""


def render_settings() -> str:
    """One page with a table for each group of `Settings`."""
    lines = [INTRODUCTION]
    for group in GROUPS:
        lines += [f"## {group.__doc__}", "", *_table(group.model_fields), ""]
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
