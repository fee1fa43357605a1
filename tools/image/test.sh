#!/usr/bin/env bash
# Builds the image `cpu` or `cuda` on a base of Debian's packages, runs it hardened with podman, and has
# the image's own tests and those of the service against it, on the CPU. Needs root, and from Debian:
# apt-get install buildah podman runc mmdebstrap. No daemon, no systemd, no registry of images. `cuda`
# compiles with the toolkit of this machine, and answers on the software CUDA runtime where
# `SOFTGPU_TORCH=2.13.0 make gpu-soft`, with the torch of constraints.txt, has built it.
#
# IMAGE_FLAGS are further flags of the build, such as a pip configuration of this machine:
#   IMAGE_FLAGS='-v /etc/pip.conf:/etc/pip.conf:ro --build-arg TORCH_INDEX_URL='
set -euo pipefail
cd "$(dirname "$0")/../.."
folder=$PWD/build/image
base=localhost/farpoint-debian:bookworm
python=${PYTHON:-python3}
image=${1:-cpu}
mkdir -p "$folder"
# Settings that need neither systemd nor a network of their own.
cat > "$folder/containers.conf" << 'CONF'
[containers]
netns = "host"
default_ulimits = ["nofile=10000:10000", "nproc=5000:5000"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
CONF
export CONTAINERS_CONF=$folder/containers.conf BUILDAH_ISOLATION=chroot IMAGE_ENGINE=buildah
export FARPOINT_IMAGE=localhost/farpoint-server:$image

if ! buildah inspect --type=image "$base" > /dev/null 2>&1; then
  # As small as Debian's own image `slim`.
  mmdebstrap --variant=minbase --include=ca-certificates bookworm "$folder/root.tar" \
    --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
    --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-include=/usr/share/doc/*/copyright'
  printf 'FROM scratch\nADD root.tar /\n' > "$folder/Dockerfile"
  buildah build -t "$base" "$folder"
  rm "$folder/root.tar"
fi
flags=()
if [ "$image" = cuda ]; then
  cuda=$(realpath "${CUDA_HOME:-/usr/local/cuda}")
  flags=(--build-arg "CUDA_BASE=$base" --volume "$cuda:/usr/local/cuda:ro")
fi
# shellcheck disable=SC2086
"$python" tools/image/build.py "$image" --build-arg "BASE=$base" "${flags[@]}" \
  --layers --pull-never ${IMAGE_FLAGS:-}

test() { "$python" -m pytest -q -p no:cacheprovider "$@"; }
test tests/image
# The service's own tests, each server a container. Left out are those that look into the process or
# put code of theirs into it, and whose files the image's user may not read.
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
chmod 755 "$tmp"
export FARPOINT_TEST_SERVER="podman run --rm --network=host --read-only --tmpfs=/tmp --cap-drop=ALL
  --security-opt=no-new-privileges --no-healthcheck --log-driver=none --volume=$tmp:$tmp
  --env=FARPOINT_HTTP_LISTEN=127.0.0.1:0 --env=FARPOINT_PROBE_LISTEN=127.0.0.1:0 $FARPOINT_IMAGE"
test --basetemp "$tmp/tests" --deselect tests/e2e/test_sample.py::test_packed_clouds_in_shared_memory \
  tests/e2e/test_{sample,stream,methods}.py tests/e2e/test_http.py::test_an_answer_is_that_of_grpc_in_either_form
