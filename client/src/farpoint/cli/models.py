"""`farpoint models`, `load` and `unload`: which models a server has."""

import json
from dataclasses import asdict

from farpoint._client import Client
from farpoint.models import Model


def show(models: list[Model], *, as_json: bool) -> None:
    """Prints one line per model."""
    for model in models:
        print(json.dumps(asdict(model)) if as_json else _as_text(model))
    if not models and not as_json:
        print("no model is loaded")


def load(client: Client, name: str, path: str | None, *, as_json: bool) -> None:
    """Loads a model and prints what it is."""
    show([client.load_model(name, path)], as_json=as_json)


def _as_text(model: Model) -> str:
    rates = ", ".join(f"{rate:.3g}" for rate in model.rates)
    takes = f", {model.attribute_channels} attributes" if model.attribute_channels else ""
    return (
        f"{model.name}: {len(model.rates)} stages keep {rates} of their points, "
        f"{model.feature_channels} features{takes}, {model.parameter_count:,} parameters"
    )
