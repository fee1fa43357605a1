#!/usr/bin/env bash
# Fails when the committed generated code differs from what proto/ gives.
set -euo pipefail
cd "$(dirname "$0")/.."
fresh=$(mktemp -d)
trap 'rm -rf "$fresh"' EXIT
tools/generate_proto.sh "$fresh"
for package in farpoint/v1 farpoint/inference; do
  diff -ru --exclude=__init__.py --exclude=__pycache__ --exclude=py.typed "$fresh/$package" "client/src/$package" ||
    { echo "The generated code is stale: run 'make proto' and commit it." >&2; exit 1; }
done
