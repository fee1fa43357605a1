#!/usr/bin/env bash
# Runs buf build, lint and breaking on proto/, where buf is installed: on PATH, or by npm below build/node.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH=$PATH:$PWD/build/node/node_modules/.bin
if ! command -v buf > /dev/null; then
  echo "buf is not installed: proto/ is not linted (npm install --prefix build/node @bufbuild/buf)."
  exit 0
fi
(cd proto && buf build && buf lint)

# Compared with what this branch left main at; on main itself, with the commit before.
base=$(git merge-base HEAD main 2> /dev/null) || { echo "No branch main: buf breaking is skipped."; exit 0; }
[ "$base" != "$(git rev-parse HEAD)" ] || base=$(git rev-parse HEAD~ 2> /dev/null) || exit 0
before=$(mktemp -d)
trap 'rm -rf "$before"' EXIT
git archive "$base" proto | tar -x -C "$before"
cp -rn proto/google "$before/proto/"  # versions that had it from elsewhere
buf breaking proto --against "$before/proto"
