#!/usr/bin/env bash
# Writes the page's bundle into the server's package. With --check: fails when the format or the types of the page's
# source are wrong, or when the bundle differs from what the source gives; installs what it needs in web/, and is
# skipped with a message without Node, and where its packages cannot be had.
set -euo pipefail
cd "$(dirname "$0")/../web"

build() {  # an absolute folder
  mkdir -p src/gen
  python -m grpc_tools.protoc -I../proto --plugin=protoc-gen-es=node_modules/.bin/protoc-gen-es \
    --es_out=src/gen --es_opt=target=ts,import_extension=none \
    $(cd ../proto && ls farpoint/v1/*.proto google/rpc/status.proto)
  FARPOINT_WEB_OUT="$1" node_modules/.bin/vite build --logLevel warn
}

if [ "${1:-}" != --check ]; then
  npm ci
  build "$PWD/../server/farpoint_server/web"
  exit 0
fi
skip() {
  echo "Skipped: the page's bundle is not compared with web/: $1."
  exit 0
}
command -v npm > /dev/null || skip "no npm"
node -e 'const [a, b] = process.versions.node.split(".").map(Number); process.exit(a > 20 || (a === 20 && b >= 19) ? 0 : 1)' ||
  skip "Node $(node --version) is older than 20.19"
if [ ! node_modules/.package-lock.json -nt package-lock.json ]; then
  output=$(timeout 180 npm ci --no-audit --no-fund --loglevel error 2>&1) || skip "npm ci: ${output%%$'\n'*}"
fi
fresh=$(mktemp -d)
trap 'rm -rf "$fresh"' EXIT
build "$fresh"
node_modules/.bin/prettier --check --log-level warn . '!src/gen' '!package-lock.json' && node_modules/.bin/tsc --noEmit
diff -rq "$fresh" ../server/farpoint_server/web ||
  { echo "The page is stale: run 'make web' and commit it." >&2; exit 1; }
