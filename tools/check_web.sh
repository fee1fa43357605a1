#!/usr/bin/env bash
# Fails when the format, types or layers of the page's source are wrong, or when the bundle in the
# server's package differs from what the source gives. Installs what it needs in web/; skipped
# with a message without Node, and where its packages cannot be had.
set -euo pipefail
cd "$(dirname "$0")/.."
skip() {
  echo "Skipped: the page's bundle is not compared with web/: $1."
  exit 0
}
command -v npm > /dev/null || skip "no npm"
node -e 'const [a, b] = process.versions.node.split(".").map(Number); process.exit(a > 20 || (a === 20 && b >= 19) ? 0 : 1)' ||
  skip "Node $(node --version) is older than 20.19"
if [ ! web/node_modules/.package-lock.json -nt web/package-lock.json ]; then
  output=$(cd web && timeout 180 npm ci --no-audit --no-fund --loglevel error 2>&1) || skip "npm ci: ${output%%$'\n'*}"
fi
fresh=$(mktemp -d)
trap 'rm -rf "$fresh"' EXIT
tools/build_web.sh src/gen "$fresh"
(cd web && node_modules/.bin/prettier --check --log-level warn . && node_modules/.bin/tsc --noEmit && node layers.mjs)
diff -rq "$fresh" server/farpoint_server/web ||
  { echo "The page is stale: run 'make web' and commit it." >&2; exit 1; }
