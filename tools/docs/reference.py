"""Pages and links of the site that are made at build time: contract, API, settings, metrics."""

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, Metric
from pydantic.fields import FieldInfo

from farpoint_server.config.settings import GROUPS
from farpoint_server.observability.metrics import GAUGES, Instruments, MemoryCollector

# Modules of each package; mkdocstrings reads their docstrings.
PAGES = {
    "farpoint": (
        "The client, without torch. `pip install farpoint`.",
        ("farpoint", "farpoint.errors", "farpoint.io"),
    ),
    "farpoint_ops": (
        "The ops for PyTorch, without gRPC. `pip install farpoint-ops`.",
        (
            "farpoint_ops.fps",
            "farpoint_ops.voxel_grid",
            "farpoint_ops.methods",
            "farpoint_ops.gather",
            "farpoint_ops.neighbors",
            "farpoint_ops.compat",
            "farpoint_ops.compat.pointnet2",
            "farpoint_ops.compat.pointnet2_stack",
            "farpoint_ops.compat.torch_cluster",
            "farpoint_ops.compat.pytorch3d",
            "farpoint_ops.compat.knn_cuda",
            "farpoint_ops.compat.pointops",
            "farpoint_ops.compat.pointops.batched",
        ),
    ),
    "farpoint_models": (
        "Models built on the ops; they come with `farpoint-server`.",
        ("farpoint_models",),
    ),
}
SETTINGS = """\
# Settings of the server

Made from the fields of `farpoint_server.config.settings`. The setting `max_request_points` is the
flag `--max-request-points`, the environment variable `FARPOINT_MAX_REQUEST_POINTS` and the key
`max_request_points` of the YAML file that `--config` names. A flag wins over the environment, the
environment over the file. Flags of lists may be repeated; variables separate by commas.
"""
METRICS = """\
# Metrics

What `/metrics` at `--http-listen` has for Prometheus, made from the objects that export it.
[Operations](../operations.md#metrics) says what to watch. `process_*` are those of
`prometheus_client`: CPU seconds, memory, open files, start time.

| metric | type | labels | |
|---|---|---|---|
"""


def render_contract(proto: Path) -> str:
    """The files of the contract; their comments are the documentation."""
    files = [
        f"## {path.name}\n\n```proto\n{path.read_text()}```\n"
        for path in sorted(proto.glob("farpoint/v1/*.proto"))
    ]
    return "\n".join(["# farpoint.v1\n", *files])


def render_api(package: str) -> str:
    """The page of a package for mkdocstrings."""
    text, modules = PAGES[package]
    return "\n\n".join([f"# {package}", text, *(f"::: {module}" for module in modules)]) + "\n"


def render_settings() -> str:
    """One page with a table for each group of `Settings`."""
    lines = [SETTINGS]
    for group in GROUPS:
        lines += [f"## {group.__doc__}", "", *_table(group.model_fields), ""]
    return "\n".join(lines)


def _table(fields: dict[str, FieldInfo]) -> Iterator[str]:
    yield from ("| setting | default | bounds | |", "|---|---|---|---|")
    for name, field in fields.items():
        text = " ".join(str(field.description).split()).replace("|", r"\|")
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


def render_metrics() -> str:
    """One page; a counter's name ends in `_total`, as it does where it is scraped."""
    instruments = Instruments(CollectorRegistry())
    metrics = [
        (metric, getattr(instrument, "_labelnames", getattr(metric, "_labelnames", ())))
        for instrument in vars(instruments).values()
        for metric in instrument.collect()
    ]
    metrics += [(Metric(f"farpoint_{name}", text, "gauge"), ()) for name, text in GAUGES.items()]
    metrics += [
        (family, getattr(family, "_labelnames", ())) for family in MemoryCollector(list).collect()
    ]
    return METRICS + "\n".join(_rows(metrics)) + "\n"


def _rows(metrics: list[tuple[Metric, tuple[str, ...]]]) -> Iterator[str]:
    for metric, labels in metrics:
        name = metric.name + "_total" * (metric.type == "counter")
        shown = ", ".join(f"`{label}`" for label in labels)
        text = metric.documentation.replace("|", r"\|")
        yield f"| `{name}` | {metric.type} | {shown} | {text} |"


# Relative links of the repository, rewritten for the site.
LINK = re.compile(r"(\]\()([^)\s#]+)([^)\s]*\))")
HOSTED = "https://github.com/farpoint/farpoint/blob/main/"
# Pages that lie outside docs/, and folders that have a page of their own.
PLACES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "docs/decisions": "decisions/index.md",
    "proto/farpoint/v1": "reference/contract.md",
}


def place_of(path: str) -> str | None:
    """Page of the site for a path of the repository; None if it has none."""
    return PLACES.get(path) or (path.removeprefix("docs/") if path.startswith("docs/") else None)


def rewrite(text: str, source: str) -> str:
    """The Markdown of the file `source` with links as they must be on the site."""
    here = posixpath.dirname(place_of(source) or "")

    def replace(match: re.Match[str]) -> str:
        before, link, after = match.groups()
        if re.match(r"[a-z]+:", link):
            return match[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), link))
        place = place_of(path)
        target = HOSTED + path if place is None else posixpath.relpath(place, here or ".")
        return before + target + after

    return LINK.sub(replace, text)
