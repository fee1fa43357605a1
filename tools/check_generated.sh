#!/usr/bin/env bash
# Fails when the committed generated code differs from what proto/ gives.
set -euo pipefail
cd "$(dirname "$0")/.."
fresh=$(mktemp -d)
trap 'rm -rf "$fresh"' EXIT
tools/generate_proto.sh "$fresh" "$fresh"
for pair in farpoint/v1:client/src farpoint_server/codec/open_inference/v2:server; do
  package=${pair%:*}
  diff -ru --exclude=__init__.py --exclude=__pycache__ --exclude=py.typed "$fresh/$package" "${pair#*:}/$package" ||
    { echo "The generated code is stale: run 'make proto' and commit it." >&2; exit 1; }
done
