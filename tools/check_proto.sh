#!/usr/bin/env bash
# Fails when the committed generated code differs from what proto/ gives. Then runs buf build, lint and
# breaking on proto/, where buf is installed: on PATH, or by npm below build/node.
set -euo pipefail
cd "$(dirname "$0")/.."
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
mkdir "$made/fresh"
tools/generate_proto.sh "$made/fresh"
for package in farpoint/v1 farpoint/inference; do
  diff -ru --exclude=__init__.py --exclude=__pycache__ --exclude=py.typed "$made/fresh/$package" "client/src/$package" ||
    { echo "The generated code is stale: run 'make proto' and commit it." >&2; exit 1; }
done

PATH=$PATH:$PWD/build/node/node_modules/.bin
if ! command -v buf > /dev/null; then
  echo "buf is not installed: proto/ is not linted (npm install --prefix build/node @bufbuild/buf)."
  exit 0
fi
(cd proto && buf build && buf lint)

# Compared with what this branch left main at; on main itself, with the commit before.
base=$(git merge-base HEAD main 2> /dev/null) || { echo "No branch main: buf breaking is skipped."; exit 0; }
[ "$base" != "$(git rev-parse HEAD)" ] || base=$(git rev-parse HEAD~ 2> /dev/null) || exit 0
before=$made/before
mkdir "$before"
git archive "$base" proto | tar -x -C "$before"
cp -rn proto/google "$before/proto/"  # versions that had it from elsewhere
buf breaking proto --against "$before/proto"
