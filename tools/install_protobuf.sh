#!/usr/bin/env bash
# Puts protobuf of major version $1 into build/protobuf-$1, once, and prints that folder: what has it
# on PYTHONPATH runs with this version, whatever else is installed.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$PWD/build/protobuf-$1
if [ ! -d "$folder" ]; then
  mkdir -p build
  new=$(mktemp -d "$PWD/build/protobuf.XXXXXX")
  trap 'rm -rf "$new"' EXIT
  python -m pip install -q --no-deps --retries 0 --timeout 20 --target "$new" "protobuf~=$1.0" >&2
  mv "$new" "$folder"
fi
echo "$folder"
