#!/usr/bin/env bash
# Writes the Python code of proto/ into the client. With --check: fails when the committed code differs from it, then
# runs buf build, lint and breaking on proto/, where buf is installed: on PATH, or by npm below build/node.
set -euo pipefail
cd "$(dirname "$0")/.."

generate() {  # the source root
  local module=farpoint/inference
  local to=(--python_out="$1" --grpc_python_out="$1" --mypy_out="quiet:$1" --mypy_grpc_out="quiet:$1")
  # proto/google is there for other languages; in Python googleapis-common-protos has its code.
  python -m grpc_tools.protoc -Iproto "${to[@]}" $(cd proto && find farpoint -name '*.proto' | sort)
  # A contract without a service has no stubs.
  grep -L "^service " proto/farpoint/v1/*.proto | while read -r file; do
    rm "$1/farpoint/v1/$(basename "$file" .proto)"_pb2_grpc.py*
  done
  # Its package, `inference`, is what other packages register as well; in a pool of its own it cannot
  # collide with theirs.
  python -m grpc_tools.protoc -I$module=proto/inference "${to[@]}" $module/open_inference.proto
  sed -i 's/_descriptor_pool\.Default()/_descriptor_pool.DescriptorPool()/' "$1/$module/open_inference_pb2.py"
}

if [ "${1:-}" != --check ]; then
  generate client/src
  exit 0
fi
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
mkdir "$made/fresh"
generate "$made/fresh"
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
mkdir "$made/before"
git archive "$base" proto | tar -x -C "$made/before"
buf breaking proto --against "$made/before/proto"
