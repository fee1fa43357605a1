"""The manifest for Kustomize, rendered from the Helm chart into deploy/kubernetes/base.

With --check nothing is written, and the exit status is 1 if the file is stale.
"""

import sys
from pathlib import Path
from typing import Any

import yaml
from helm_python import Chart

ROOT = Path(__file__).resolve().parents[1] / "deploy"
MANIFEST = ROOT / "kubernetes" / "base" / "farpoint.yaml"
HEADER = "# Rendered from deploy/helm/farpoint by `make manifests`; change it there.\n"


def render(values: dict[str, Any]) -> str:
    """One file of all objects but the chart's tests, without Helm's labels."""
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
    text = render({})
    if "--check" not in sys.argv:
        MANIFEST.write_text(text)
    elif MANIFEST.read_text() != text:
        sys.exit("deploy/kubernetes/base/farpoint.yaml is stale; run `make manifests`")


if __name__ == "__main__":
    main()
