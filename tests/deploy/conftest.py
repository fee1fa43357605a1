"""The chart rendered by Helm's own library, and paths of the deployments."""

import importlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

DEPLOY = Path(__file__).parents[2] / "deploy"
CHART = DEPLOY / "helm" / "farpoint"

Object = dict[str, Any]
Render = Callable[..., list[Object]]


def need(module: str, distribution: str) -> ModuleType:
    """A module of the extra `dev`; hosted CI, which sets CI, has to have it."""
    if os.environ.get("CI"):
        return importlib.import_module(module)
    return pytest.importorskip(module, reason=f"optional extra: {distribution} is not installed")


def read(path: Path) -> list[Object]:
    """The objects of a YAML file."""
    return [found for found in yaml.safe_load_all(path.read_text()) if found]


def of_kind(objects: Sequence[Object], kind: str) -> Object:
    """The one object of a kind."""
    (found,) = [found for found in objects if found["kind"] == kind]
    return found


def container_of(objects: Sequence[Object]) -> Object:
    """The server's container."""
    (container,) = of_kind(objects, "Deployment")["spec"]["template"]["spec"]["containers"]
    return container


def environment_of(objects: Sequence[Object]) -> Mapping[str, str]:
    """The server's variables."""
    return {variable["name"]: variable["value"] for variable in container_of(objects)["env"]}


@pytest.fixture(scope="session")
def chart() -> Iterator[Any]:
    with need("helm_python", "helm-python-sdk").Chart.load(CHART) as chart:
        yield chart


@pytest.fixture
def render(chart: Any) -> Render:
    """The objects of the chart with some values; named `farpoint` by default."""

    def render(values: Object | None = None, name: str = "farpoint") -> list[Object]:
        files = chart.render(values or {}, name=name, namespace="sampling")
        texts = [text for path, text in files.items() if path.endswith(".yaml")]
        return [found for text in texts for found in yaml.safe_load_all(text) if found]

    return render
