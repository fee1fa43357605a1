#!/usr/bin/env bash
# Fails when the page's source is not as its formatter and compiler want it, or when the bundle in the
# server's package differs from what the source gives. Skipped where `npm ci` was not run in web/.
set -euo pipefail
cd "$(dirname "$0")/.."
if ! command -v node > /dev/null || [ ! -x web/node_modules/.bin/vite ]; then
  echo "Skipped: the page's bundle is not compared with web/ ('npm ci' there, with Node 20 or later, makes it possible)."
  exit 0
fi
(cd web && node_modules/.bin/prettier --check --log-level warn . && node_modules/.bin/tsc --noEmit)
fresh=$(mktemp -d)
trap 'rm -rf "$fresh"' EXIT
tools/build_web.sh "$fresh/gen" "$fresh/bundle"
for pair in gen:web/src/gen bundle:server/farpoint_server/web; do
  diff -rq "$fresh/${pair%%:*}" "${pair#*:}" ||
    { echo "The page is stale: run 'make web' and commit it." >&2; exit 1; }
done
