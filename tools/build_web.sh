#!/usr/bin/env bash
# Writes the TypeScript of proto/ into the folder $1 and the bundle of the page into the folder $2.
# Needs the packages that `npm ci` installs in web/, and protoc of grpcio-tools.
set -euo pipefail
cd "$(dirname "$0")/../web"
mkdir -p "$1"
python -m grpc_tools.protoc -I../proto --plugin=protoc-gen-es=node_modules/.bin/protoc-gen-es \
  --es_out="$1" --es_opt=target=ts,import_extension=none \
  $(cd ../proto && ls farpoint/v1/*.proto google/rpc/status.proto)
FARPOINT_WEB_OUT="$2" node_modules/.bin/vite build --logLevel warn
