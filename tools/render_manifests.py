"""Manifests for Kustomize, rendered from the Helm chart into deploy/kubernetes.

With --check nothing is written, and the exit status is 1 where a file is not what is rendered.
"""

import sys
from pathlib import Path
from typing import Any

import yaml
from helm_python import Chart

ROOT = Path(__file__).resolve().parents[1] / "deploy"
VALUES: dict[str, dict[str, Any]] = {"base": {}, "gpu": {"gpu": {"count": 1}}}
HEADER = "# Rendered from deploy/helm/farpoint by `make manifests`; change it there.\n"


def render(values: dict[str, Any]) -> str:
    """One file of all objects but the chart's tests, without what is said of Helm."""
    with Chart.load(ROOT / "helm" / "farpoint") as chart:
        files = chart.render(values, name="farpoint")
    objects = [
        found
        for path, text in sorted(files.items())
        if path.endswith(".yaml") and "/tests/" not in path
        for found in yaml.safe_load_all(text)
        if found
    ]
    for found in objects:
        for label in ("app.kubernetes.io/managed-by", "helm.sh/chart"):
            del found["metadata"]["labels"][label]
    return HEADER + yaml.safe_dump_all(objects, sort_keys=False)


def main() -> None:
    stale = []
    for name, values in VALUES.items():
        path = ROOT / "kubernetes" / name / "farpoint.yaml"
        text = render(values)
        if not path.exists() or path.read_text() != text:
            stale.append(f"deploy/kubernetes/{name}/farpoint.yaml")
            if "--check" not in sys.argv:
                path.write_text(text)
    if stale and "--check" in sys.argv:
        sys.exit(f"not what the chart renders: {', '.join(stale)}; run `make manifests`")


if __name__ == "__main__":
    main()
